"""What a schedule observation leaves to be worked out: where each request was, and how far, at every step.

An observation lists what happened; whether a chunk ended a prefill, or whom an abort met, follows from everything before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from parity.observation import Schedule, Step
from parity.scenario import Abort, Request, Scenario

State = Literal["absent", "waiting", "running", "preempted", "finished", "aborted"]


class Life(msgspec.Struct):
    """A request so far. `computed` tokens are in the cache; `known` are its prompt and the tokens that it got."""

    request: Request
    state: State = "absent"
    computed: int = 0
    outputs: int = 0
    preemptions: int = 0

    @property
    def known(self) -> int:
        return len(self.request.prompt) + self.outputs


class Run(msgspec.Struct, frozen=True):
    """A request that computes `tokens` in this step, behind the `start` that it has or found in the cache."""

    life: Life
    tokens: int
    start: int

    @property
    def missing(self) -> int:
        """Tokens that are still to be computed after this step; 0 or less where it gets one."""
        return self.life.known - self.start - self.tokens


class Moment(msgspec.Struct, frozen=True):
    """One step as `schedule()` left it: the lives say what is known then, states included, and no token of this step.

    `tables` and `running` are those of the step before, without what has ended since. `aborted` says what each abort met,
    `reset_victims` whom resets preempted.
    """

    index: int
    step: Step
    lives: dict[str, Life]
    runs: list[Run]
    running: list[str]
    tables: dict[str, list[int]]
    aborted: list[tuple[Abort, Life, State]]
    reset_victims: list[str]

    @property
    def victims(self) -> list[str]:
        """Whom `schedule()` preempted."""
        return self.step.preempted[len(self.reset_victims) :]


def follow(scenario: Scenario, observation: Schedule) -> Iterator[Moment]:
    """Every step of the observation in order. A moment is good until the next one is asked for."""
    timeline = scenario.timeline
    assert timeline is not None, "a schedule observation of a scenario without a timeline"
    lives = {request.id: Life(request) for request in timeline.requests}
    arrivals: dict[int, list[Life]] = {}
    for life in lives.values():
        arrivals.setdefault(life.request.at, []).append(life)
    running: list[str] = []
    tables: dict[str, list[int]] = {}
    for index, step in enumerate(observation.steps):
        for life in arrivals.get(index, ()):
            life.state = "waiting"
        aborts = [abort for abort in timeline.aborts if abort.at == index]
        early = _abort(lives, [abort for abort in aborts if abort.when == "before_schedule"])
        running = [name for name in running if lives[name].state == "running"]
        tables = {name: tables[name] for name in running}
        running_reset = any(reset.at == index and reset.running for reset in timeline.resets)
        reset_victims = running[::-1] if running_reset else []
        runs = _schedule(lives, step)
        late = [abort for abort in aborts if abort.when == "before_update"]
        met = early + [(abort, lives[abort.id], lives[abort.id].state) for abort in late]
        yield Moment(index, step, lives, runs, running, tables, met, reset_victims)
        _abort(lives, late)
        _update(runs, step, lives)
        tables = dict(step.blocks)
        running = [name for name in step.running if lives[name].state == "running"]


def _abort(lives: dict[str, Life], aborts: list[Abort]) -> list[tuple[Abort, Life, State]]:
    """Carry the aborts out; whom each met, and in which state."""
    met: list[tuple[Abort, Life, State]] = []
    for abort in aborts:
        life = lives[abort.id]
        met.append((abort, life, life.state))
        if life.state in ("waiting", "running", "preempted"):
            life.state = "aborted"
    return met


def _schedule(lives: dict[str, Life], step: Step) -> list[Run]:
    for name in step.preempted:
        life = lives[name]
        life.state, life.computed = "preempted", 0
        life.preemptions += 1
    for name, tokens in step.cached:
        lives[name].state, lives[name].computed = "running", tokens
    return [Run(lives[name], tokens, lives[name].computed) for name, tokens in step.scheduled]


def _update(runs: list[Run], step: Step, lives: dict[str, Life]) -> None:
    for run in runs:
        life = run.life
        life.computed = run.start + run.tokens
        if life.state == "running" and run.missing <= 0:
            life.outputs += 1
    for name, _, _ in step.finished:
        lives[name].state = "finished"
