"""Subjects with one vice each in how they speak: what they do is what upstream does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from tests.parity.zoo.honest import Honest, Message

# ruff: noqa: ARG002 - a hook has the arguments of the one that it stands for
LONG = 60.0  # seconds; nobody waits so long for them


class DiesAtStart(Honest):
    def serve(self) -> None:
        print("ImportError: libfoo.so is missing", file=sys.stderr)
        raise SystemExit(3)


class SilentAtStart(Honest):
    def hello(self, seq: int) -> None:
        time.sleep(LONG)


class HelloNonsense(Honest):
    def greeting(self) -> Any:
        return "nonsense"


class Denies(Honest):
    """Its hello knows nothing of a capability and a field that its file claims."""

    def greeting(self) -> Any:
        can = ["memory-budget", "auto-fit", "watermark", "forced-tokens", "step-trace"]
        return {**super().greeting(), "capabilities": can, "observes": {"plan": ["status", "num_blocks"]}}


class DiesAfterHello(Honest):
    def run(self, seq: int, message: Message) -> None:
        print("RuntimeError: no such device", file=sys.stderr, flush=True)
        os._exit(7)


class DiesOnce(Honest):
    def step(self, seq: int, number: int, step: Message) -> None:
        super().step(seq, number, step)
        if self.starts == 1:
            os._exit(9)


class DiesAlways(Honest):
    def step(self, seq: int, number: int, step: Message) -> None:
        super().step(seq, number, step)
        os._exit(9)


class DiesOnTheWayBack(Honest):
    """Plays a step, dies, and does not come up again."""

    def hello(self, seq: int) -> None:
        if self.starts > 1:
            os._exit(3)
        super().hello(seq)

    def step(self, seq: int, number: int, step: Message) -> None:
        super().step(seq, number, step)
        os._exit(9)


class DiesAfterTheEnd(Honest):
    def end(self, seq: int, observation: Message) -> None:
        super().end(seq, observation)
        os._exit(4)


class HangsAtStep3(Honest):
    def step(self, seq: int, number: int, step: Message) -> None:
        if number == 3:
            time.sleep(LONG)
        super().step(seq, number, step)


class IsSlow(Honest):
    """Never silent for long, and never done."""

    def step(self, seq: int, number: int, step: Message) -> None:
        super().step(seq, number, step)
        time.sleep(0.2)


class TalksThenQuiet(Honest):
    def run(self, seq: int, message: Message) -> None:
        sys.stderr.write("loading weights: 12 %")  # no newline: a bar in its middle
        sys.stderr.flush()
        time.sleep(LONG)


class IsChatty(Honest):
    def run(self, seq: int, message: Message) -> None:
        print("a warning on stderr", file=sys.stderr, flush=True)
        super().run(seq, message)


class NotJson(Honest):
    def run(self, seq: int, message: Message) -> None:
        print("Loading weights: 100%", flush=True)
        super().run(seq, message)


class NoObject(Honest):
    def run(self, seq: int, message: Message) -> None:
        print("[1, 2]", flush=True)
        super().run(seq, message)


class WrongSeq(Honest):
    def end(self, seq: int, observation: Message) -> None:
        super().end(seq + 100, observation)


class StepBeforeRun(Honest):
    """Goes on with a step of nothing after it said hello."""

    def hello(self, seq: int) -> None:
        super().hello(seq)
        self.say(seq=seq, step={})


class HalfALineThenDies(Honest):
    def end(self, seq: int, observation: Message) -> None:
        sys.stdout.write('{"seq": 2, "end": {"status"')
        sys.stdout.flush()
        os._exit(9)


class HalfALineThenQuiet(Honest):
    def end(self, seq: int, observation: Message) -> None:
        sys.stdout.write('{"seq": 2, "end": {"status"')
        sys.stdout.flush()
        time.sleep(LONG)


class AnswersTwice(Honest):
    def end(self, seq: int, observation: Message) -> None:
        super().end(seq, observation)
        super().end(seq, observation)


class SpeaksAfterTheEnd(Honest):
    def end(self, seq: int, observation: Message) -> None:
        super().end(seq, observation)
        time.sleep(0.05)
        print("done!", flush=True)


class DriverError(Honest):
    def run(self, seq: int, message: Message) -> None:
        self.say(seq=seq, error={"kind": "driver", "message": "KeyError: 'config'"})


class WrongShape(Honest):
    def end(self, seq: int, observation: Message) -> None:
        self.say(seq=seq, end={"status": "ok", "num_blocks": "four"})


class StepsOfAPlan(Honest):
    def end(self, seq: int, observation: Message) -> None:
        self.say(seq=seq, step={})
        super().end(seq, observation)


class NeverEnds(Honest):
    def end(self, seq: int, observation: Message) -> None:
        while True:
            self.say(seq=seq, step={})


class TellsMore(Honest):
    def step(self, seq: int, number: int, step: Message) -> None:
        self.say(seq=seq, step=step, native={"own": [1, 2]})


class NeverReads(Honest):
    """Says hello and reads no further, so that a long question does not fit into the pipe."""

    def hello(self, seq: int) -> None:
        super().hello(seq)
        time.sleep(LONG)


class LeavesAChild(Honest):
    """A child of its holds its stdout open, and outlives it."""

    def run(self, seq: int, message: Message) -> None:
        child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG})"])
        print(f"child {child.pid}", file=sys.stderr, flush=True)
        os._exit(5)


class LacksAField(Honest):
    """Claims to show `steps.free` and leaves it out."""

    def step(self, seq: int, number: int, step: Message) -> None:
        super().step(seq, number, {key: value for key, value in step.items() if key != "free"})


class AnotherEverySecondRun(Honest):
    def end(self, seq: int, observation: Message) -> None:
        plan = observation.get("plan", observation)
        if self.plays % 2 == 0 and plan["status"] == "ok":
            plan["num_blocks"] += 1
        super().end(seq, observation)


class KeepsTheClock(Honest):
    """A simulator: says on stderr what it was told of the time."""

    def run(self, seq: int, message: Message) -> None:
        print(message.get("clock"), message.get("arrivals"), file=sys.stderr, flush=True)
        os._exit(6)
