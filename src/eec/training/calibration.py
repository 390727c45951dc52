"""Is bf16 faster than float32 on this CPU? Measured once, and kept in the user's cache folder.

That a CPU claims the instructions does not say how fast they are: with AVX-512 alone bf16 may be
slower than float32. Nor that they work: on a virtual machine that claims AMX, torch's products in
bf16 were seen to end the process (SIGILL), so that a process of its own does the measuring. A CPU
that claims nothing is not measured: it would emulate bf16, which was seen to take hundreds of times
as long.
"""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from eec.errors import UserError
from eec.files import cache_dir, write_whole
from eec.nets.classifiers import CLASSIFIERS, Classifier

STEPS = 5
BATCH = 64
HOPELESS = 5  # times as slow in its first step: nothing more to measure
WORTH = 1.15  # bf16 rounds; it is taken where it is clearly faster
PATIENCE = 60  # seconds; it takes three, most of them to import torch


@dataclass(frozen=True)
class Calibration:
    """Seconds that a step of training took in each precision; infinite where it never ended."""

    float32: float
    bf16: float

    @property
    def works(self) -> bool:
        return math.isfinite(self.bf16)

    @property
    def precision(self) -> str:
        return "bf16" if self.bf16 * WORTH <= self.float32 else "float32"

    def __str__(self) -> str:
        if not self.float32 and self.works:
            return "bf16 is claimed but could not be measured"
        if not self.works:
            return "measured: bf16, though claimed, ended its trial"
        return f"measured: a step takes {self.bf16 / self.float32:.2f} of its time with bf16"


UNKNOWN = Calibration(float32=0.0, bf16=1.0)  # for this process only: the next one tries again


def claims_bf16() -> bool:
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache  # where nothing can be kept, a process still has one answer
def calibrate() -> Calibration:
    """What was measured with this CPU and this torch, now or earlier."""
    path, key = cache_dir() / "calibration.json", f"{cpu_name()}, torch {torch.__version__}"
    if earlier := _read(path).get(key):
        return earlier
    measured = measure_apart()
    if measured is None:
        return UNKNOWN
    # Another process may have been first: all runs of a comparison are to go by one answer.
    known = _read(path)
    if key in known:
        return known[key]
    kept = {name: asdict(one) for name, one in {**known, key: measured}.items()}
    with suppress(UserError):
        write_whole(path, json.dumps(kept, indent=2).encode())
    return measured


def _read(path: Path) -> dict[str, Calibration]:
    try:
        told = json.loads(path.read_bytes())
        return {key: Calibration(float(s["float32"]), float(s["bf16"])) for key, s in told.items()}
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}  # not there, or not ours: it is measured again


def measure_apart() -> Calibration | None:
    """`measure` in a process of its own, which bf16 may end; None if something else did."""
    command = [sys.executable, "-c", f"from {__name__} import tell; tell()"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        return Calibration(**json.loads(done.stdout))
    except subprocess.CalledProcessError as error:
        ended = error.returncode < 0  # by a signal: an instruction that it does not have
        return Calibration(float32=0.0, bf16=math.inf) if ended else None
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None


def measure() -> Calibration:
    """The best of a few steps of a small classifier, in turns."""
    with torch.random.fork_rng(devices=[]):
        net = CLASSIFIERS["small"]((3, 32, 32))
        net.grow(10)
        images = torch.rand(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    _step(net, images, bf16=False)  # the first is slower
    plain = [_step(net, images, bf16=False)]
    rounded = [_step(net, images, bf16=True)]
    while len(plain) < STEPS and rounded[0] < HOPELESS * plain[0]:
        plain.append(_step(net, images, bf16=False))
        rounded.append(_step(net, images, bf16=True))
    return Calibration(min(plain), min(rounded))


def _step(net: Classifier, images: torch.Tensor, *, bf16: bool) -> float:
    began = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = cross_entropy(net(images).float(), torch.arange(len(images)) % 10)
    loss.backward()
    return time.perf_counter() - began


def tell() -> None:
    print(json.dumps(asdict(measure())))
