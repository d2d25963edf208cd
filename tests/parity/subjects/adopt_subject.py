"""A newcomer: the engine behind the door `process`, with the faults that `faults.json` beside it says.

`{"free": ["preemption/"]}` plants the fault `free` in every scenario below preemption. The faults:

free   the first step has one free block too few
last   the last step has one free block too many
plan   the plan has one block too many
odd    every second answer has the fault free
dies   the process ends without an answer
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from engine.driver import observe

LEVELS = ["plan", "schedule"]
FAULTS: dict[str, list[str]] = json.loads(Path("faults.json").read_text(encoding="utf-8"))


def has(fault: str, scenario: str) -> bool:
    return any(scenario.startswith(prefix) for prefix in FAULTS.get(fault, []))


def planted(name: str, seen: dict[str, Any], number: int) -> dict[str, Any]:
    if has("dies", name):
        os._exit(9)
    plan = seen.get("plan", seen)
    if has("plan", name) and "num_blocks" in plan:
        plan["num_blocks"] += 1
    for step in seen.get("steps", [])[:1]:
        step["free"] -= has("free", name) or (has("odd", name) and number % 2 == 0)
    for step in seen.get("steps", [])[-1:]:
        step["free_after"] += has("last", name)
    return seen


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    for number, line in enumerate(sys.stdin):
        message = json.loads(line)
        seq = message["seq"]
        if message["op"] == "hello":
            say(seq=seq, hello={"name": "newcomer", "version": "1", "levels": LEVELS, "capabilities": "all"})
        elif message["op"] == "stop":
            say(seq=seq, stopped=True)
            return
        else:
            scenario = message["scenario"]
            seen = planted(scenario["id"], observe(scenario), number)
            for step in seen.pop("steps", []):
                say(seq=seq, step=step)
            say(seq=seq, end=seen)


if __name__ == "__main__":
    main()
