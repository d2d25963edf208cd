"""The first difference between two observations, in the order in which things happened.

Only the first is looked for: everything after it may be its consequence. That nothing hides behind it
is the digests' business (`verdicts`), but for log probabilities, which no digest holds: `logprob_differences`
goes on over those. Where numbers may differ a little is `numerics`' business.

Both walks are recursive, and so are the digests: JSON below an exchange is at most 100 deep (`parity/serve`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence

from parity import numerics
from parity.finding import Difference, DifferenceKind
from parity.scenario import Json
from parity.token_lists import shared_start

Key = str | int
_PLAIN = re.compile(r"[^.\[\]\"]+")
_PART = re.compile(r"\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]|\.?([^.\[\]\"]+)")


def first_difference(oracle: Json, subject: Json, path: tuple[Key, ...] = ()) -> Difference | None:
    """Where `subject` first is not `oracle`; null where they are equal. Both stand at `path`.

    Objects are walked in the oracle's field order, which is the order of happening within a step (the
    plan before the steps, the steps before the end); then keys that only the subject has. Lists are
    walked element by element, then by length.
    """
    return _walk(path, oracle, subject)


def logprob_differences(oracle: Json, subject: Json) -> Iterator[Difference]:
    """Every log probability of the subject's that is not the oracle's, wherever both have one to compare.

    Of a choice those of the tokens before its first other token: what follows that follows from it. An alternative
    that is another token on the other side is left out as well; it is a difference that a digest holds.
    """
    yield from _walk_logprobs((), oracle, subject)


def render(path: Sequence[Key]) -> str:
    """A path as people read it: `steps[41].scheduled[0][1]`; a key that would blur it stands as `["a.b"]`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _PLAIN.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{json.dumps(key, ensure_ascii=False)}]"
    return text


def split(path: str) -> tuple[Key, ...]:
    """The keys and indexes of a rendered path; the inverse of `render`."""
    return tuple(_key(*parts) for parts in _PART.findall(path))


def _key(index: str, quoted: str, name: str) -> Key:
    if quoted:
        return str(json.loads(quoted))
    return int(index) if index else name


def _walk(path: tuple[Key, ...], oracle: Json, subject: Json) -> Difference | None:
    if isinstance(oracle, dict) and isinstance(subject, dict):
        return _walk_object(path, oracle, subject)
    if isinstance(oracle, (list, tuple)) and isinstance(subject, (list, tuple)):
        return _walk_list(path, oracle, subject)
    kind = _scalar_kind(path, oracle, subject)
    return None if kind is None else _found(path, oracle, subject, kind)


def _walk_object(
    path: tuple[Key, ...], oracle: dict[str, Json], subject: dict[str, Json]
) -> Difference | None:
    for key, value in oracle.items():
        if key not in subject:
            return _found((*path, key), value, None, "missing")
        found = _walk((*path, key), value, subject[key])
        if found is not None:
            return found
    for key, value in subject.items():
        if key not in oracle:
            return _found((*path, key), None, value, "extra")
    return None


def _walk_list(path: tuple[Key, ...], oracle: Sequence[Json], subject: Sequence[Json]) -> Difference | None:
    for index, (left, right) in enumerate(zip(oracle, subject, strict=False)):
        found = _walk((*path, index), left, right)
        if found is not None:
            return found
    if len(oracle) == len(subject):
        return None
    kind: DifferenceKind = "longer" if len(subject) > len(oracle) else "shorter"
    if any(isinstance(item, dict) for item in (*oracle, *subject)):
        return _found(path, len(oracle), len(subject), kind)
    return _found(path, oracle, subject, kind)


def _scalar_kind(path: tuple[Key, ...], oracle: Json, subject: Json) -> DifferenceKind | None:
    if oracle is None or subject is None:
        if oracle is subject:
            return None
        return "missing" if subject is None else "extra"
    if _is_number(oracle) and _is_number(subject):
        if numerics.is_near(path, oracle, subject):
            return None
        return _number_kind(oracle, subject)
    if type(oracle) is not type(subject):
        return "type"
    return None if oracle == subject else "differs"


def _number_kind(oracle: float, subject: float) -> DifferenceKind:
    if oracle != subject:
        return "greater" if subject > oracle else "less"
    if type(oracle) is not type(subject):
        return "type"
    return "greater" if math.copysign(1, subject) > 0 else "less"  # 0.0 and -0.0


def _walk_logprobs(path: tuple[Key, ...], oracle: Json, subject: Json) -> Iterator[Difference]:
    if isinstance(oracle, dict) and isinstance(subject, dict):
        names = [value.get("token") for value in (oracle, subject)]
        if all(isinstance(name, str) for name in names) and names[0] != names[1]:
            return
        left, right = shared_start(oracle, subject)
        for key in left:
            if key in right:
                yield from _walk_logprobs((*path, key), left[key], right[key])
    elif isinstance(oracle, list) and isinstance(subject, list):
        for index, (first, second) in enumerate(zip(oracle, subject, strict=False)):
            yield from _walk_logprobs((*path, index), first, second)
    elif _are_logprobs(path, oracle, subject) and not numerics.is_near(path, oracle, subject):
        yield _found(path, oracle, subject, _number_kind(oracle, subject))


def _are_logprobs(path: tuple[Key, ...], oracle: Json, subject: Json) -> bool:
    return numerics.is_log_probability(path, oracle) and numerics.is_log_probability(path, subject)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _found(path: tuple[Key, ...], oracle: Json, subject: Json, kind: DifferenceKind) -> Difference:
    return Difference(render(path), _as_json(oracle), _as_json(subject), kind)


def _as_json(value: Json) -> Json:
    """The value with lists for tuples, so that it equals itself after a way through a file."""
    return [_as_json(item) for item in value] if isinstance(value, (list, tuple)) else value
