"""The loop of a process that generates text for `make bench`: JSON lines in, JSON lines out, one request at a time.

All sides of a comparison speak it, each in its own interpreter, so that they can take turns within one run. A
line `{"prompts": [[id, …], …], "max_tokens": n}` is answered by `{"seconds", "tokens", "finish_reasons",
"peak_rss"}` or by `{"error": text}`; the first line of all says who answers. Standard library only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol


class Generated(NamedTuple):
    """What one request yielded: its new token ids and why it ended (`length`, `stop`, or what went wrong)."""

    token_ids: Sequence[int]
    finish_reason: str | None


class Generator(Protocol):
    """A loaded model."""

    def describe(self) -> dict[str, Any]:
        """`name`, `version`, `threads`, and `pool_bytes`, the KV memory that was asked for."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Sequence[Generated]:
        """All prompts at once, greedy, past any EOS; in the order of the prompts."""
        ...


def serve(source: BinaryIO, sink: BinaryIO, generator: Generator) -> None:
    """Answer `source` line by line until it ends. What a request raises is its answer, and the loop goes on."""
    _write(sink, {"ready": generator.describe(), "peak_rss": peak_rss()})
    for line in source:
        try:
            request = json.loads(line)
            prompts, max_tokens = request["prompts"], request["max_tokens"]
            started = time.perf_counter()
            done = generator.generate(prompts, max_tokens)
            seconds = time.perf_counter() - started
        except Exception as error:  # noqa: BLE001 - whoever asked decides what a failed request means
            _write(sink, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
            continue
        _write(
            sink,
            {
                "seconds": seconds,
                "tokens": [list(one.token_ids) for one in done],
                "finish_reasons": [one.finish_reason for one in done],
                "peak_rss": peak_rss(),
            },
        )


def peak_rss() -> int:
    """The most memory that this process has had resident, in bytes.

    Not from getrusage, whose figure a process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _write(sink: BinaryIO, message: dict[str, Any]) -> None:
    sink.write(json.dumps(message).encode() + b"\n")
    sink.flush()
