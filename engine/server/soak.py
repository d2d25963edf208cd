"""`make soak`: many clients that stream and leave as they like, for a while, against a server of its own.

It looks for what only time shows: a response of 500, a stream that ends wrongly, a block that does not come back,
memory that grows. It prints what it saw beside what it should have seen, and exits with 1 where they differ.
No rate is printed: clients that leave on purpose make no complete set of requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import httpx
import msgspec

LEAVE = 0.3  # share of requests whose client goes away in the middle
MAX_GROWTH = 0.05  # of resident memory, from the middle third of the run to the last
READY_SECONDS = 120
ADDRESS = re.compile(r"serving .* on (http://\S+)")


class Seen(msgspec.Struct):
    """What came of all requests. `statuses` of whole responses, `endings` of streams."""

    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    endings: Counter[str] = msgspec.field(default_factory=Counter)
    memory: list[int] = []  # kB, one sample a second


def start_server(model: str, blocks: int, seqs: int) -> tuple[subprocess.Popen[str], str]:
    """A server on a free port, and its base URL. Raises RuntimeError with its log when it does not come up."""
    command = [sys.executable, "-m", "engine.cli.main", "serve", model, "--port", "0"]
    command += ["--num-gpu-blocks-override", str(blocks), "--max-num-seqs", str(seqs)]
    command += ["--disable-uvicorn-access-log"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    log: list[str] = []
    deadline = time.monotonic() + READY_SECONDS
    for line in process.stderr:
        log.append(line)
        found = ADDRESS.search(line)
        if found:
            threading.Thread(
                target=process.stderr.read, daemon=True
            ).start()  # so that a log cannot fill its pipe
            return process, found.group(1)
        if time.monotonic() > deadline:
            break
    process.kill()
    raise RuntimeError("the server did not come up:\n" + "".join(log))


async def client(base: str, seen: Seen, until: float, seed: int) -> None:
    """One client, request after request: streams, and leaves some streams in the middle."""
    chance = random.Random(seed)
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        while time.monotonic() < until:
            leave_after = chance.randrange(1, 12) if chance.random() < LEAVE else None
            body = {
                "prompt": [chance.randrange(4, 300) for _ in range(chance.randrange(1, 40))],
                "max_tokens": chance.randrange(1, 40),
                "stream": True,
                "seed": seed,
            }
            try:
                await _one(http, body, leave_after, seen)
            except httpx.HTTPError as error:
                seen.endings[type(error).__name__] += 1


async def _one(http: httpx.AsyncClient, body: dict[str, object], leave_after: int | None, seen: Seen) -> None:
    frames = 0
    last = finish = ""
    async with http.stream("POST", "/v1/completions", json=body) as response:
        seen.statuses[response.status_code] += 1
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            last = line[6:]
            frames += 1
            if last != "[DONE]":
                chunk = json.loads(last)
                finish = "error" if "error" in chunk else chunk["choices"][0]["finish_reason"] or finish
            if leave_after is not None and frames >= leave_after:
                seen.endings["left"] += 1
                return
    seen.endings[finish if last == "[DONE]" and finish else "truncated"] += 1


async def watch_memory(pid: int, seen: Seen, until: float) -> None:
    while time.monotonic() < until:
        seen.memory.append(resident_kb(pid))
        await asyncio.sleep(1)


def resident_kb(pid: int) -> int:
    """Resident memory of a process in kB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


async def state(base: str) -> dict[str, float]:
    """The gauges that must be 0 when nobody is served."""
    async with httpx.AsyncClient(base_url=base, timeout=10) as http:
        text = (await http.get("/metrics")).text
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    return {name: float(re.findall(rf"^vllm:{name}{{.*}} (\S+)$", text, re.M)[0]) for name in names}


async def soak(base: str, pid: int, clients: int, seconds: float) -> tuple[Seen, dict[str, float]]:
    seen = Seen()
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(watch_memory(pid, seen, until))
        for seed in range(clients):
            group.create_task(client(base, seen, until, seed))
    left = await state(base)
    for _ in range(50):
        if not any(left.values()):
            break
        await asyncio.sleep(0.1)
        left = await state(base)
    return seen, left


def growth(memory: Sequence[int]) -> float:
    """By which share resident memory grew from the middle third of the samples to the last."""
    third = len(memory) // 3
    if third == 0:
        return 0.0
    return median(memory[-third:]) / median(memory[third : 2 * third]) - 1


def report(seen: Seen, left: dict[str, float], exit_code: int) -> list[tuple[str, str, str, bool]]:
    """(what, seen, wanted, whether it is as wanted)"""
    total = sum(seen.statuses.values())
    bad = sum(count for status, count in seen.statuses.items() if status != 200)
    wrong = {end: n for end, n in seen.endings.items() if end not in ("left", "length", "stop")}
    grown = growth(seen.memory)
    peak = max(seen.memory, default=0) // 1024
    return [
        ("requests", str(total), "some", total > 0),
        ("clients that left", str(seen.endings["left"]), "some", seen.endings["left"] > 0),
        ("responses other than 200", str(bad), "0", bad == 0),
        ("streams that ended wrongly", str(wrong or 0), "0", not wrong),
        ("running, waiting, blocks in use", str(list(left.values())), "all 0", not any(left.values())),
        ("memory growth", f"{grown:+.1%} (peak {peak} MB)", f"at most {MAX_GROWTH:.0%}", grown <= MAX_GROWTH),
        ("exit code after SIGTERM", str(exit_code), "0", exit_code == 0),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.server.soak", description=__doc__)
    parser.add_argument("--model", default=".models/tiny-opt", help="default: %(default)s (`make model`)")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--blocks", type=int, default=256)
    parser.add_argument("--max-num-seqs", type=int, default=64)
    args = parser.parse_args(argv)
    try:
        process, base = start_server(args.model, args.blocks, args.max_num_seqs)
    except RuntimeError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    try:
        seen, left = asyncio.run(soak(base, process.pid, args.clients, args.seconds))
        process.send_signal(signal.SIGTERM)
        exit_code = process.wait(20)
    finally:
        process.kill()
    rows = report(seen, left, exit_code)
    for what, found, wanted, good in rows:
        print(f"{'ok  ' if good else 'FAIL'} {what:32} {found:28} (should be {wanted})")
    return 0 if all(good for *_, good in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
