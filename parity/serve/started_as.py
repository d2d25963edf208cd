"""Whether a server was really started as was asked: what it says of itself, held against the configuration.

A server that ignores a flag, or a flag map with the wrong name in it, would make of every script a comparison of two
configurations. What a server does not say of itself cannot be checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import msgspec

from parity.scenario import Json, ServerConfig
from parity.serve.metrics import cache_config

SECONDS = 5.0  # for one question
_LABELS = {
    "block_size": "block_size",
    "num_blocks": "num_gpu_blocks",
    "enable_prefix_caching": "enable_prefix_caching",
}  # of the cache's configuration in `/metrics`, by our keys


class Otherwise(msgspec.Struct, frozen=True):
    """One key that the server says another value of than was asked for."""

    key: str
    said: str
    asked: str

    def __str__(self) -> str:
        return f"{self.key} = {self.said} where {self.asked} was asked for"


async def otherwise(client: httpx.AsyncClient, config: ServerConfig) -> list[Otherwise]:
    """Where `/v1/models` and `/metrics`, as far as the server has them, contradict `config`."""
    models = await _get(client, "/v1/models")
    metrics = await _get(client, "/metrics")
    return [
        *(() if models is None else of_models(_json(models), config)),
        *(() if metrics is None else of_cache(cache_config(metrics.text), config)),
    ]


async def model_folder(client: httpx.AsyncClient, name: str) -> str | None:
    """Where the server itself says that it has the model from (`root` of its card); null where it names no place."""
    models = await _get(client, "/v1/models")
    card = {} if models is None else _cards(_json(models)).get(name, {})
    root = card.get("root")
    return root if isinstance(root, str) and "/" in root else None


def of_models(listed: Json, config: ServerConfig) -> Iterator[Otherwise]:
    """From the answer of `/v1/models`: the names of what is served, and the length of the one that is asked for."""
    cards = _cards(listed)
    if not cards:
        return
    if config.model not in cards:
        yield Otherwise("model", " and ".join(sorted(cards)), config.model)
        return
    length = cards[config.model].get("max_model_len")
    if type(length) is int and config.max_model_len not in ("auto", length):
        yield Otherwise("max_model_len", str(length), str(config.max_model_len))


def of_cache(said: dict[str, str], config: ServerConfig) -> Iterator[Otherwise]:
    """From the cache's configuration in `/metrics`; a value that is not set there says nothing."""
    for key, label in _LABELS.items():
        value, asked = said.get(label, "None"), str(getattr(config, key))
        if value != "None" and value.lower() != asked.lower():
            yield Otherwise(key, value, asked)


def _cards(listed: Json) -> dict[str, dict[str, Json]]:
    """The models that are listed, by id."""
    entries = listed.get("data") if isinstance(listed, dict) else None
    return {
        entry["id"]: entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    }


def _json(answer: httpx.Response) -> Json:
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


async def _get(client: httpx.AsyncClient, path: str) -> httpx.Response | None:
    """The whole answer, null where there is none with 200 in time.

    A server may close the connection that the question before came over, just as this one is sent: it is asked again.
    """
    try:
        async with asyncio.timeout(SECONDS):
            try:
                answer = await client.get(path)
            except httpx.RemoteProtocolError:
                answer = await client.get(path)
    except (httpx.HTTPError, TimeoutError):
        return None
    return answer if answer.status_code == httpx.codes.OK else None
