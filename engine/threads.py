"""How the threads that compute a step wait for each other.

A step is some three hundred parallel loops of microseconds, and OpenMP's threads meet after each. GNU's runtime
lets them spin for three milliseconds, which on a machine that does other things as well means that they keep the
very thread that they wait for from running; and if there were ever more threads than CPUs, it does not let them
spin at all, which costs a wake-up each time. Measured on two CPUs with SmolLM2 in bfloat16 at batch 1, tokens/s:
spinning three milliseconds 54 alone and 2 beside another busy process, a tenth of one 50 and 50, none 33.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, TypeVar

SPINS: Final = "10000"  # about a tenth of a millisecond
SETTINGS: Final = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

T = TypeVar("T")


def spin_briefly() -> None:
    """Call it before torch is imported, whose runtime reads the environment once. What the user set is kept."""
    if "torch" not in sys.modules and not any(name in os.environ for name in SETTINGS):
        os.environ[SETTINGS[0]] = SPINS


def run_apart(work: Callable[[], T]) -> T:
    """`work()` in a thread that ends with it, so that the threads it started are not counted beside those of later ones."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="nullblock-load") as pool:
        return pool.submit(work).result()
