"""A fake server in a thread of its own, as somebody else's that runs already, and subjects that lead to it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.parity.serve.fake_http import FakeServer, Write, whole

OBSERVED_WITHOUT_A_LOAD = [
    *("exchanges.ending", "exchanges.status", "exchanges.headers", "exchanges.body", "exchanges.stream"),
    *("conditions", "ended"),
]


class ListedServer(FakeServer):
    """It lists `cards` under `/v1/models`, says `cache` labels in `/metrics`, and `looks` are all paths asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[dict[str, Any]] = [{"id": "tiny-opt", "root": "/far/tiny-opt", "max_model_len": 256}]
        self.cache_labels = 'block_size="16",num_gpu_blocks="64",enable_prefix_caching="True"'
        self.looks: list[str] = []
        self.has_metrics = True
        self.completes = True

    async def _answer(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.looks.append(path)
        await super()._answer(path.removeprefix("/v1"), reader, writer)

    async def on_completions(self, write: Write) -> None:
        if self.completes:
            await write(whole(b"{}"))
        else:
            await write(whole(b"{}", status=b"501 Not Implemented"))

    async def on_models(self, write: Write) -> None:
        await write(whole(json.dumps({"object": "list", "data": self.cards}).encode()))

    async def on_metrics(self, write: Write) -> None:
        if not self.has_metrics:
            await write(whole(b"{}", status=b"404 Not Found"))
            return
        text = "".join(
            f"vllm:{name} {value}\n"
            for name, value in {
                "num_requests_running": self.running,
                "num_requests_waiting": self.waiting,
                "kv_cache_usage_perc": self.cache,
                "num_preemptions_total": self.preemptions,
                f"cache_config_info{{{self.cache_labels}}}": 1,
            }.items()
        )
        await write(whole(text.encode(), b"text/plain"))


@contextmanager
def running(change: Callable[[ListedServer], None] = lambda _: None) -> Iterator[ListedServer]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def within(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(10)

    server = ListedServer()
    change(server)
    within(server.start())
    try:
        yield server
    finally:
        within(server.stop())
        within(server.settled())
        within(emptied())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def emptied() -> None:
    """Nothing is left to do in this loop, and what was closed in it has gone."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.02)


def http_subject(folder: Path, url: str, name: str = "elsewhere", config: str = "", more: str = "") -> Path:
    """The file of a subject behind `url`, started with 64 blocks; `more` stands before the door."""
    path = folder / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\nlevels = ["serve"]\nrecords = "{name}-records"\nsuite = "0.1"\n'
        f"{more or CAPABLE}\n"
        f'[door.http]\nurl = "{url}"\nconfig = {{ model = "tiny-opt", num_blocks = 64, max_model_len = 256{config} }}\n'
    )
    return path


CAPABLE = 'capabilities = ["float32-weights", "metrics"]'
BLIND = f'capabilities = ["float32-weights"]\nobserves = {{ serve = {json.dumps(OBSERVED_WITHOUT_A_LOAD)} }}'
