"""Freed memory stays with the process that asked for it."""

import subprocess
import sys

import pytest

from eec.training import allocator

# Training steps, whose backward pass has a thread of its own: how many pages are handed out anew?
PAGES = """
import resource, sys
from eec.training.allocator import keep_freed_memory
import torch
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit("not here")
net = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(6)))
images = torch.ones(32, 8, 40, 40)
def steps():
    for _ in range(10):
        net(images).relu().square().mean().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = steps()
print(steps() - before)
"""


def pages(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PAGES, how], capture_output=True, encoding="utf-8", timeout=120
    )
    if done.stderr.startswith("not here"):
        pytest.skip("the C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_steps_are_given_the_same_pages_again() -> None:
    assert 5 * pages("kept") < pages("given back")


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert not allocator.keep_freed_memory()
