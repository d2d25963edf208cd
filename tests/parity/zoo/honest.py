"""The base of the zoo: a stand-alone subject that speaks the protocol and has no vice. It is the engine, behind JSON lines.

`STATE` in the environment names a file that counts the starts, for vices that only show the first time.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from engine.driver import observe

# ruff: noqa: ARG002 - a hook tells all that a vice may want to know
SECONDS = 0.25  # what it says that every scenario took
Message = dict[str, Any]


class Honest:
    """One hook for each moment at which a vice can show."""

    def __init__(self) -> None:
        self.plays = 0
        self.starts = _count_starts()

    def greeting(self) -> Any:
        return {"name": "zoo", "version": "1", "levels": ["plan", "schedule"], "capabilities": "all"}

    def say(self, **message: object) -> None:
        print(json.dumps(message), flush=True)

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            seq, operation = message["seq"], message["op"]
            if operation == "hello":
                self.hello(seq)
            elif operation == "run":
                self.plays += 1
                self.run(seq, message)
            else:
                self.stop(seq)
                return

    def hello(self, seq: int) -> None:
        self.say(seq=seq, hello=self.greeting())

    def stop(self, seq: int) -> None:
        self.say(seq=seq, stopped=True)

    def run(self, seq: int, message: Message) -> None:
        steps: list[Message] = []

        def happened(step: Message) -> None:
            steps.append(step)
            self.step(seq, len(steps) - 1, step)

        observation = self.observe(message["scenario"], happened)
        if message["scenario"]["level"] == "schedule":
            observation = {"plan": observation["plan"], "end": observation["end"]}
        self.end(seq, observation)

    def observe(self, scenario: Message, happened: Any) -> Message:
        return observe(scenario, None, happened)

    def step(self, seq: int, number: int, step: Message) -> None:
        self.say(seq=seq, step=step)

    def end(self, seq: int, observation: Message) -> None:
        self.say(seq=seq, end=observation, seconds=SECONDS)


def _count_starts() -> int:
    logging.disable(logging.CRITICAL)  # stderr is for what a vice says there
    if "STATE" not in os.environ:
        return 1
    state = Path(os.environ["STATE"])
    count = int(state.read_text()) + 1 if state.exists() else 1
    state.write_text(str(count))
    return count
