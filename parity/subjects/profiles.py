"""What a subject may leave open: the forms in which two observations are compared.

exact      everything as it is
renamed    ids of blocks up to one bijection over the whole timeline
counts     numbers of blocks, and not which
aggregate  totals: of a timeline what each request got, found in the cache and how often it was preempted; of a script
           status, usage and finish reasons, and what the counters of `/metrics` came to
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from parity.observation import Answer, Choice, Observation, Schedule, Serve, Step, Stream
from parity.scenario import Json, Level
from parity.subjects.fields import FIELDS

PROFILES = ("exact", "renamed", "counts", "aggregate")
_KEPT_OF_ANSWERS = ("exchanges.ending", "exchanges.status")


def apply(profile: str, observation: Observation) -> Observation:
    """The observation in the profile's form."""
    if isinstance(observation, Schedule):
        return _TIMELINES[profile](observation)
    if isinstance(observation, Serve) and profile == "aggregate":
        return _totals_of_script(observation)
    return observation


def is_exact(profile: str, level: Level) -> bool:
    """Whether a profile takes nothing away at this level: no plan has steps, and only the totals leave out parts of a script."""
    return profile == "exact" or level == "plan" or (level == "serve" and profile != "aggregate")


def taken(profile: str, level: Level) -> frozenset[str]:
    """The fields that a profile leaves no property to be judged on."""
    if profile == "counts" and level == "schedule":
        return frozenset({"steps.blocks", "steps.evicted"})
    if profile != "aggregate" or level == "plan":
        return frozenset()
    if level == "schedule":
        return frozenset(name for name in FIELDS[level] if name.startswith("steps."))
    kept = (*_KEPT_OF_ANSWERS, "preempted", "after")
    return frozenset(name for name in FIELDS[level] if name not in kept)


def _exact(timeline: Schedule) -> Schedule:
    return timeline


def _renamed(timeline: Schedule) -> Schedule:
    """Blocks named from 1 on: by their first place in a table, and those in none after the steps that evicted them.

    Two timelines are equal then if and only if one bijection makes them so. 0 is no name: where ids are real it is the
    null block's, which nobody holds (`parity.properties`).
    """
    names: dict[int, int] = {}
    evictions: dict[int, list[int]] = {}
    for index, step in enumerate(timeline.steps):
        for _, table in step.blocks:
            for block in table:
                names.setdefault(block, len(names) + 1)
        for block in step.evicted:
            evictions.setdefault(block, []).append(index)
    for block in sorted(evictions.keys() - names.keys(), key=lambda block: evictions[block]):
        names[block] = len(names) + 1
    steps = [
        msgspec.structs.replace(
            step,
            blocks=[(owner, [names[block] for block in table]) for owner, table in step.blocks],
            evicted=sorted(names[block] for block in step.evicted),
        )
        for step in timeline.steps
    ]
    return msgspec.structs.replace(timeline, steps=steps)


def _counts(timeline: Schedule) -> Schedule:
    steps = [
        msgspec.structs.replace(
            step,
            blocks=[(owner, list(range(len(table)))) for owner, table in step.blocks],
            evicted=list(range(len(step.evicted))),
        )
        for step in timeline.steps
    ]
    return msgspec.structs.replace(timeline, steps=steps)


def _aggregate(timeline: Schedule) -> Schedule:
    """One step that holds the totals; the period of a livelock is one of steps, and goes.

    Requests stand in the order of the outputs, which is the file's; one that is in no output comes after them.
    """
    order = {owner: place for place, (owner, _) in enumerate(timeline.end.outputs)}
    steps = timeline.steps

    def place(name: str) -> tuple[int, str]:
        return order.get(name, len(order)), name

    total = Step(
        aborted=[],
        reset=[],
        scheduled=_sums((pair for step in steps for pair in step.scheduled), place),
        new=[],
        resumed=[],
        preempted=sorted((name for step in steps for name in step.preempted), key=place),
        cached=_sums((pair for step in steps for pair in step.cached), place),
        evicted=[],
        blocks=[],
        free=0,
        running=[],
        waiting=[],
        aborted_late=[],
        finished=sorted((end for step in steps for end in step.finished), key=lambda end: place(end[0])),
        free_after=0,
    )
    return Schedule(timeline.plan, [total], msgspec.structs.replace(timeline.end, period=None))


def _sums(pairs: Iterable[tuple[str, int]], place: Callable[[str], tuple[int, str]]) -> list[tuple[str, int]]:
    totals: Counter[str] = Counter()
    for name, number in pairs:
        totals[name] += number
    return [(name, totals[name]) for name in sorted(totals, key=place) if totals[name]]


_TIMELINES: dict[str, Callable[[Schedule], Schedule]] = {
    "exact": _exact,
    "renamed": _renamed,
    "counts": _counts,
    "aggregate": _aggregate,
}


def _totals_of_script(script: Serve) -> Serve:
    return Serve(
        exchanges=[_totals_of_answer(answer) for answer in script.exchanges],
        conditions=[],
        health=[],
        preempted=script.preempted,
        after=script.after,
        ended=None,
    )


def _totals_of_answer(answer: Answer) -> Answer:
    return Answer(
        id=answer.id,
        ending=answer.ending,
        status=answer.status,
        headers={},
        body=_totals_of_body(answer.body),
        stream=None if answer.stream is None else _totals_of_stream(answer.stream),
    )


def _totals_of_body(body: Json) -> Json:
    """Of a completion its usage and its finish reasons, of an error its type, param and code."""
    if not isinstance(body, dict):
        return None
    kept: dict[str, Any] = {key: body[key] for key in ("usage", "error") if key in body}
    choices = body.get("choices")
    if isinstance(choices, list):
        kept["choices"] = [_reason(choice) for choice in choices]
    return kept


def _totals_of_stream(stream: Stream) -> Stream:
    return Stream(
        choices=[
            Choice(index=choice.index, kinds=[], joined=None, finish=_reason(choice.finish))
            for choice in stream.choices
        ],
        rest=[frame["usage"] for frame in stream.rest if isinstance(frame, dict) and frame.get("usage")],
        usage="",
    )


def _reason(choice: Json) -> Json:
    return choice.get("finish_reason") if isinstance(choice, dict) else None
