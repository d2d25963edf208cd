"""A finding's shape and its hash: the same behaviour in another scenario has the same fingerprint.

A fingerprint is `f1:` and 16 hexadecimal digits, the start of the SHA-256 of the shape's line. The
line joins these components with `|`, in this order:

level        `plan`, `schedule`, `serve`
attribution  `mirrored`, `ours`, `theirs`, `differs`, `harness`
event        what was going on: `plan:ok`, `plan:<error kind>`; in a step `before` (aborts and resets),
             `schedule`, `update`; at the end `end:<kind>`; `outcome` for one that only the subject shows
path         the field, with ids wildcarded: `steps[*].scheduled[*][1]`. Indexes into lists are `*`, positions
             in a pair stay
kind         kind and sign: `greater`, `less`, `differs`, `missing`, `extra`, `longer`, `shorter`, `type`;
             of a broken property `greater`, `less` or `broken`
role         the request that the place speaks of: `new`, `resumed`, `preempted`, `running`, `waiting`, `gone`,
             or `-`; of `terminates` what the requests left were, joined with `+`:
             `never-admitted`, `preempted`, `running`
events       that step's events joined with `+`: `preempt`, `resume`, `hit`, `evict`, `stall`, or `-`
broken       the broken property; several joined with `,`; `-` for none

At level serve the components are these:

event        of a place in an exchange `answered:2xx` or `stream:2xx`, by the status's class; of an answer that is not
             whole how it ended: `silent`, `unanswered`, `broken`, `refused`, `left`; of the process's end
             `end:exited` or `end:alive`, or `-` where nobody waited for it; of any other field its name
path         as above, and inside JSON that has no type every index is `*`, and so is a key that is a token:
             `exchanges[*].body.choices[*].logprobs.top_logprobs[*][*]`
role         the endpoint that was asked: `completions`, `chat`, `models`, `metrics`, `health`, `tokenize`, `other`; `-`
             of a place in no exchange
events       what happened until that exchange was over, or in the whole script: `disconnect`, `signal`, `preempt`

Event, role and events are taken on each side; where the sides disagree they stand as `oracle/subject`.
Values, step numbers, times, seeds and ids are no part of it. A change of this page is a new version (`f2:`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec
from msgspec import inspect

from parity import serve_shapes, shapes
from parity.diff import Key, render, split
from parity.finding import Broken, Difference
from parity.observation import Observation, PlanError, PlanOk, Schedule, Serve, Step
from parity.scenario import AnyScenario, ServeScenario

VERSION = "f1"
SYNTAX = re.compile(r"f1:[0-9a-f]{16}")
OUTCOMES = "outcomes"  # the path of a difference between outcome sets
_NONE = "-"
_WILD = "*"
_BY_TOKEN = ("top_logprobs", "prompt_logprobs")  # lists of objects whose keys are tokens


class Shape(msgspec.Struct, frozen=True):
    """The components of a fingerprint; the module's docstring says what each may be."""

    level: str
    attribution: str
    event: str
    path: str
    kind: str
    role: str
    events: str
    broken: str

    @property
    def line(self) -> str:
        return "|".join(msgspec.structs.astuple(self))

    @property
    def fingerprint(self) -> str:
        return f"{VERSION}:{hashlib.sha256(self.line.encode()).hexdigest()[:16]}"


def difference_shape(
    scenario: AnyScenario,
    attribution: str,
    broken: Sequence[str],
    difference: Difference,
    oracle: Observation,
    subject: Observation,
) -> Shape:
    """The shape of a difference; `broken` names the properties that one side alone breaks, if any."""
    keys = split(difference.path)
    left, right = (_place(scenario, keys, oracle), _place(scenario, keys, subject))
    roles = (left.role, right.role)
    if not isinstance(scenario, ServeScenario):
        roles = _roles(keys, oracle, subject)
    return Shape(
        level=scenario.level,
        attribution=attribution,
        event=_both(left.event, right.event),
        path=wildcard(keys, oracle, subject),
        kind=difference.kind,
        role=_both(*roles),
        events=_both(left.events, right.events),
        broken=",".join(broken) or _NONE,
    )


def stray_shape(level: str, attribution: str, broken: Sequence[str]) -> Shape:
    """The shape of an outcome that only the subject shows. Which of the oracle's showed beside it is chance, so no part."""
    return Shape(
        level=level,
        attribution=attribution,
        event="outcome",
        path=OUTCOMES,
        kind="extra",
        role=_NONE,
        events=_NONE,
        broken=",".join(broken) or _NONE,
    )


def broken_shape(level: str, attribution: str, oracle: Broken, subject: Broken) -> Shape:
    """The shape of a property that both sides break (give the same break twice where only one does)."""
    at = tuple(_WILD if isinstance(key, int) else key for key in split(oracle.at))
    return Shape(
        level=level,
        attribution=attribution,
        event=_both(oracle.event, subject.event),
        path=_text(at),
        kind=_both(oracle.kind, subject.kind),
        role=_both(oracle.role, subject.role),
        events=_both("+".join(oracle.events) or _NONE, "+".join(subject.events) or _NONE),
        broken=oracle.property,
    )


def wildcard(keys: Sequence[Key], oracle: Observation, subject: Observation) -> str:
    """The path with every index into a list, and every token, as `*`; a position in a tuple stays a number."""
    node: inspect.Type | None = None
    for observation in (oracle, subject):
        found = inspect.type_info(type(observation))
        if keys and _member(found, keys[0]) is not None:
            node = found
            break
    out: list[Key] = []
    for at, key in enumerate(keys):
        is_list = isinstance(key, int) and not isinstance(node, inspect.TupleType)
        out.append(_WILD if is_list or _is_token(keys, at) else key)
        node = None if node is None else _member(node, key)
    return _text(out)


def _is_token(keys: Sequence[Key], at: int) -> bool:
    """Whether this key is one of an object of alternatives: `top_logprobs[3]["the"]`, `prompt_logprobs[3]["262"]`.

    In chat the list stands one step deeper, and its objects have keys of their own: `top_logprobs[0].logprob`.
    """
    if at < 2 or not isinstance(keys[at], str) or not isinstance(keys[at - 1], int):
        return False
    in_chat = "content" in keys[:at] and keys[at - 2] == "top_logprobs"
    return keys[at - 2] in _BY_TOKEN and not in_chat


def _member(node: inspect.Type, key: Key) -> inspect.Type | None:
    if isinstance(node, inspect.UnionType):
        found = (_member(item, key) for item in node.types)
        return next((item for item in found if item is not None), None)
    if isinstance(node, inspect.StructType):
        return next((field.type for field in node.fields if field.encode_name == key), None)
    if isinstance(node, inspect.ListType):
        return node.item_type
    if isinstance(node, inspect.TupleType) and isinstance(key, int) and key < len(node.item_types):
        return node.item_types[key]
    return None


def _text(keys: Sequence[Key]) -> str:
    return render(keys).replace(f".{_WILD}", f"[{_WILD}]")


def _both(oracle: str, subject: str) -> str:
    return oracle if oracle == subject else f"{oracle}/{subject}"


_PHASES = {"aborted": "before", "reset": "before", "aborted_late": "update"} | {
    "finished": "update",
    "free_after": "update",
}


class _Place(msgspec.Struct, frozen=True):
    """What one side's observation says of a place."""

    event: str
    role: str
    events: str


def _place(scenario: AnyScenario, keys: Sequence[Key], observation: Observation) -> _Place:
    if isinstance(scenario, ServeScenario) and isinstance(observation, Serve):
        return _served_place(scenario, keys, observation)
    return _Place(_event(keys, observation), _NONE, _events(keys, observation))


def _served_place(scenario: ServeScenario, keys: Sequence[Key], observation: Serve) -> _Place:
    event, role, exchange = str(keys[0]) if keys else _NONE, _NONE, None
    if keys[:1] == ("ended",):
        event = serve_shapes.end_event(observation.ended)
    elif len(keys) > 1 and keys[0] == "exchanges" and isinstance(keys[1], int):
        asked = scenario.exchanges[keys[1]]
        event = serve_shapes.exchange_event(observation.exchanges[keys[1]])
        role, exchange = serve_shapes.role_of(asked), asked.id
    events = serve_shapes.events_until(scenario, observation, exchange)
    return _Place(event, role, "+".join(events) or _NONE)


def _event(keys: Sequence[Key], observation: Observation) -> str:
    if isinstance(observation, Serve):
        return str(keys[0]) if keys else _NONE
    if isinstance(observation, (PlanOk, PlanError)) or keys[:1] == ("plan",):
        return shapes.plan_event(shapes.plan_of(observation))
    if len(keys) > 2 and keys[0] == "steps":
        return _PHASES.get(str(keys[2]), "schedule")
    return f"end:{observation.end.kind}"


def _step(keys: Sequence[Key], observation: Observation) -> Step | None:
    if len(keys) < 2 or keys[0] != "steps" or not isinstance(observation, Schedule):
        return None
    index = keys[1]
    return observation.steps[index] if isinstance(index, int) and index < len(observation.steps) else None


def _events(keys: Sequence[Key], observation: Observation) -> str:
    step = _step(keys, observation)
    return _NONE if step is None else "+".join(shapes.events_of([step])) or _NONE


def _roles(keys: Sequence[Key], oracle: Observation, subject: Observation) -> tuple[str, str]:
    """What the request at this place was, on each side; the oracle says which request it is, if it can."""
    steps = (_step(keys, oracle), _step(keys, subject))
    request = _request_at(keys, *steps)
    if request is None:
        return _NONE, _NONE
    left, right = (_NONE if step is None else shapes.role_in(step, request) for step in steps)
    return left, right


def _request_at(keys: Sequence[Key], oracle: Step | None, subject: Step | None) -> str | None:
    """The id that the place names: the entry itself, or the first surplus one where a list is longer."""
    if len(keys) < 3 or oracle is None or subject is None:
        return None
    lists = [getattr(step, str(keys[2]), None) for step in (oracle, subject)]
    if not all(isinstance(entries, list) for entries in lists):
        return None
    index = keys[3] if len(keys) > 3 else min(len(entries) for entries in lists if entries is not None)
    for entries in lists:
        if entries is not None and isinstance(index, int) and index < len(entries):
            entry = entries[index]
            name = entry[0] if isinstance(entry, tuple) else entry
            return name if isinstance(name, str) else None
    return None
