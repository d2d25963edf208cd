"""The process around upstream, set before upstream is imported: environment, hash seed, streams, signals.

Two runs must answer the same bytes, so nothing that a shell happens to export may reach upstream, and
nothing that upstream or its children print may reach the protocol.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import BinaryIO, NoReturn

SEED_VARIABLE = "PYTHONHASHSEED"
SEED = "0"  # upstream's first block hash is taken over it
SOURCE_VARIABLE = "NULLBLOCK_ORACLE_SOURCE"

FIXED = {
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the other runner folds resumed requests into new ones
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
KEPT = frozenset({"VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT"})  # where upstream may write; no behaviour


def seed_hashes() -> None:
    """Starts this process again with the fixed hash seed, unless it runs with it already.

    Exits with 1 where the interpreter ignores its environment (`python -I`), as a restart could not help.
    """
    fixed = os.environ.get(SEED_VARIABLE) == SEED
    if fixed and not sys.flags.hash_randomization:
        return
    if fixed:
        print(
            "oracle.driver: start python without -I or -E, so that it takes PYTHONHASHSEED", file=sys.stderr
        )
        raise SystemExit(1)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, SEED_VARIABLE: SEED})


def fix_environment() -> None:
    """Drops every `VLLM_*` variable that could change an answer and sets the fixed ones."""
    for variable in list(os.environ):
        if variable.startswith("VLLM_") and variable not in KEPT:
            del os.environ[variable]
    os.environ.update(FIXED)


def private_streams() -> tuple[BinaryIO, BinaryIO]:
    """The protocol's (source, sink) on descriptors of their own.

    After it, descriptor 0 reads nothing and descriptor 1 writes to stderr, for this process and for the
    children that upstream starts.
    """
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return source, sink


def quiet_signals() -> None:
    """SIGINT and SIGTERM end the process with 128 + signal, its clean-up done and without a traceback.

    Only the first one counts, so that the second does not interrupt the clean-up.
    """
    for number in ENDING_SIGNALS:
        signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    for ending in ENDING_SIGNALS:
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)
