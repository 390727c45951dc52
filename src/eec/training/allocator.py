"""How the process of a command holds on to memory. Free of torch."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's mallopt (its man page), and what they are set to, in bytes.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT_FREE = 1 << 30
LARGEST_FROM_HEAP = 32 << 20  # the most that mallopt takes: it refuses more


def keep_freed_memory() -> bool:
    """Keep what tensors leave free, up to KEPT_FREE bytes; whether that could be had.

    A training step frees what the next one asks for. By default glibc gives much of it back to the
    system in between, which then hands out every page anew, one by one: a tenth of a step on two
    threads (docs/speed.md). For our own processes only: how a program that imports us holds its
    memory is not for us to say.
    """
    if sys.platform != "linux":
        return False
    try:
        tune = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return all([tune(MMAP_THRESHOLD, LARGEST_FROM_HEAP), tune(TRIM_THRESHOLD, KEPT_FREE)])
