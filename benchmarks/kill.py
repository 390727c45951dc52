"""Kill a run at random moments, go on each time, and compare it with one that was never touched.

    python benchmarks/kill.py --times 200

Every kill is SIGKILL to a process of its own, which gets no chance to tidy up. It goes on by `eec
resume`, with checkpoints after every step, now and then, or hardly ever, so that many kills hit a
file half written. A run that ends is compared byte by byte, and the next one is begun with another
seed, until there were as many kills as asked for. The exit status is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# All that a run imports on its way: forked processes need not do it again.
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401

import eec.cli.carry_out
import eec.report.write
import eec.runs.run  # noqa: F401
from eec.cli.main import main as eec_main

EVERY = ("0", "0.2", "60")  # seconds between checkpoints
MOST_WAIT = 5.0  # seconds from one kill to the next
SAME = ("learner.eec", "samples.safetensors", "pictures/sheet.png")


def start(arguments: Sequence[str]) -> int:
    """`eec` in a process of its own. Forked, for the import of torch takes longer than the work."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        eec_main(arguments)
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        os._exit(status)


def finish(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def command(folder: Path, options: Sequence[str], seed: int) -> list[str]:
    every = ["--checkpoint-every", random.choice(EVERY)]
    if (folder / "config.json").exists():
        return ["resume", str(folder), *every]
    return ["run", *options, "--seed", str(seed), "--out", str(folder), *every]


def kill(child: int, after: float) -> int:
    """The exit status: that of a process which was still at work then says so."""
    until = time.monotonic() + after
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(0.002, after))
    os.kill(child, signal.SIGKILL)
    return finish(child)


def read(folder: Path) -> dict[str, Any]:
    """All of a run that must not differ: not its seconds, which do."""
    lines = [json.loads(line) for line in (folder / "measures.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    files = [folder / name for name in SAME if (folder / name).exists()]
    content: dict[str, Any] = {file.name: file.read_bytes() for file in files}
    return {**content, "measures": lines, "files": sorted(p.name for p in folder.iterdir())}


def differences(one: Path, other: Path) -> list[str]:
    a, b = read(one), read(other)
    return [name for name in a if a[name] != b[name]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=200, help="kills in all [200]")
    parser.add_argument("--seed", type=int, default=0, help="of the moments [0]")
    parser.add_argument("options", nargs="*", default=[], help="of eec run [a short digits run]")
    asked = parser.parse_args()
    options = asked.options or [
        "digits", "--per-class", "40", "--classes-per-increment", "2", "--memory", "60",
    ]  # fmt: skip
    random.seed(asked.seed)
    kills = torn = found = rounds = 0
    with tempfile.TemporaryDirectory() as place:
        while kills < asked.times:
            whole, cut = Path(place) / f"whole-{rounds}", Path(place) / f"cut-{rounds}"
            began = time.monotonic()
            if finish(start(["run", *options, "--seed", str(rounds), "--out", str(whole)])):
                print("the run that nobody touched has failed")
                return 1
            longest = time.monotonic() - began
            here = 0
            status = -1
            while status < 0:
                child = start(command(cut, options, rounds))
                most = min(longest / 2, MOST_WAIT)
                after = random.uniform(0, most) if kills < asked.times else 1e9
                status = kill(child, after)
                if status < 0:
                    kills, here = kills + 1, here + 1
                    torn += any(cut.rglob("*.part"))
            if status:
                print(f"going on ended with status {status}")
                return 1
            differ = differences(whole, cut)
            found += bool(differ)
            told = f"differs in {', '.join(differ)}" if differ else "the same bytes"
            print(f"run {rounds}: {longest:.1f} s untouched, {here} kills: {told}", flush=True)
            rounds += 1
    print(f"{kills} kills survived, {torn} of them while a file was written; ", end="")
    print(f"{rounds} runs, {found} with differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
