"""Greedy choices that no float decides: where the oracle's two best tokens are closer than its arithmetic is exact.

`settle` takes such places out of the comparison, before anything is compared: the subject's answer with the
oracle's words from there on. What it takes over is exactly this, and all else is left as it is:

tie       Both choices list their tokens with log probabilities and with alternatives. Token k is the first that
          differs; of the oracle's alternatives at k the two best are less than GAP apart, its own token is within
          GAP of the best, and so is the subject's, or else all that are listed are (then the subject's may be one
          more that was not). Then tokens, ids, log probabilities and text from k on, `finish_reason`,
          `stop_reason`, and every usage of the exchange are the oracle's.
exchange  At a place where both chose the same token, the alternatives are as many, agree rank by rank within the
          tolerance of `numerics`, each that both list has the same value within it, and each that only one lists is
          within it of the lowest that the other lists. Then they are the oracle's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from parity.finding import Tie
from parity.numerics import TOLERANCE
from parity.observation import Answer, Choice, Serve, Stream
from parity.scenario import Json
from parity.token_lists import Object, Place, TokenList, token_list, with_tokens

GAP = 1e-3


def settle(oracle: Serve, subject: Serve) -> tuple[Serve, list[Tie]]:
    """The subject's observation with the oracle's words where a tie left none to compare, and the ties."""
    ties: list[Tie] = []
    if len(oracle.exchanges) != len(subject.exchanges):
        return subject, ties
    settled = []
    for left, right in zip(oracle.exchanges, subject.exchanges, strict=True):
        answer, found = _settle_answer(left, right)
        settled.append(answer)
        ties += found
    return msgspec.structs.replace(subject, exchanges=settled), ties


def _settle_answer(oracle: Answer, subject: Answer) -> tuple[Answer, list[Tie]]:
    if oracle.stream is not None and subject.stream is not None:
        stream, ties = _settle_stream(oracle.stream, subject.stream, subject.id)
        return msgspec.structs.replace(subject, stream=stream), ties
    left, right = _choices(oracle.body), _choices(subject.body)
    if left is None or right is None or len(left) != len(right):
        return subject, []
    choices, ties = [], []
    for index, (theirs, ours) in enumerate(zip(left, right, strict=True)):
        choice, tie = _settle_choice(theirs, ours)
        choices.append(choice)
        if tie is not None:
            ties.append(Tie(subject.id, index, *tie))
    body = {**subject.body, "choices": choices}
    return msgspec.structs.replace(subject, body=_usage_of(oracle.body, body) if ties else body), ties


def _settle_stream(theirs: Stream, ours: Stream, exchange: str) -> tuple[Stream, list[Tie]]:
    if [choice.index for choice in theirs.choices] != [choice.index for choice in ours.choices]:
        return ours, []
    choices, ties = [], []
    for left, right in zip(theirs.choices, ours.choices, strict=True):
        choice, tie = _settle_joined(left, right)
        choices.append(choice)
        if tie is not None:
            ties.append(Tie(exchange, left.index, *tie))
    rest = ours.rest
    if ties and len(theirs.rest) == len(ours.rest):
        rest = [_usage_of(left, right) for left, right in zip(theirs.rest, ours.rest, strict=True)]
    return msgspec.structs.replace(ours, choices=choices, rest=rest), ties


def _settle_joined(oracle: Choice, subject: Choice) -> tuple[Choice, tuple[int, float] | None]:
    if not isinstance(oracle.joined, dict) or not isinstance(subject.joined, dict):
        return subject, None
    joined, tie = _settle_choice(oracle.joined, subject.joined)
    finish = subject.finish
    if tie is not None:
        if "frame" in joined:
            joined = {**joined, "frame": _usage_of(oracle.joined.get("frame"), joined["frame"])}
        finish = _reasons_of(oracle.finish, finish)
    return msgspec.structs.replace(subject, joined=joined, finish=finish), tie


def _settle_choice(oracle: Object, subject: Object) -> tuple[Object, tuple[int, float] | None]:
    """One choice, of a body or a stream, with the position and the gap of its tie."""
    left, right = token_list(oracle), token_list(subject)
    if left is None or right is None or left.kind != right.kind:
        return subject, None
    places: list[Place] = []
    for theirs, ours in zip(left.places, right.places, strict=False):
        if theirs.token != ours.token:
            break
        places.append(exchanged(theirs, ours))
    at = len(places)
    gap = _tie_at(left, right, at)
    if gap is None:
        return with_tokens(subject, right, [*places, *right.places[at:]]), None
    return _followed(oracle, subject, left, right, places), (at, gap)


def exchanged(oracle: Place, subject: Place) -> Place:
    """The subject's place, with the oracle's alternatives where only the rank of near equals differs."""
    left, right = oracle.raw.get("top_logprobs"), subject.raw.get("top_logprobs")
    if not are_exchangeable(oracle.alternatives, subject.alternatives):
        return subject
    lists = [value for value in (left, right) if isinstance(value, list)]
    keys = [[set(item) for item in value] for value in lists]
    if len(keys) == 2 and keys[0] != keys[1]:
        return subject  # an entry with another key is a difference, whoever stands first
    return msgspec.structs.replace(subject, raw={**subject.raw, "top_logprobs": left})


def are_exchangeable(oracle: Sequence[tuple[str, float]], subject: Sequence[tuple[str, float]]) -> bool:
    """Whether two lists of alternatives (token, log probability) differ, and only in how near equals were ranked."""
    names = [[token for token, _ in alternatives] for alternatives in (oracle, subject)]
    if names[0] == names[1] or len(oracle) != len(subject):
        return False
    ranks = zip(_ranked(oracle), _ranked(subject), strict=True)
    if any(abs(left - right) > TOLERANCE for left, right in ranks):
        return False
    lists = (dict(oracle), dict(subject))
    if not lists[0] or any(len(values) != len(oracle) for values in lists):
        return False
    for values, others in (lists, lists[::-1]):
        lowest = min(others.values())
        if any(abs(value - others.get(token, lowest)) > TOLERANCE for token, value in values.items()):
            return False
    return True


def _ranked(alternatives: Sequence[tuple[str, float]]) -> list[float]:
    return sorted((value for _, value in alternatives), reverse=True)


def _tie_at(oracle: TokenList, subject: TokenList, at: int) -> float | None:
    """The oracle's gap where both go on with another token and its own alternatives do not decide; else null."""
    if at >= len(oracle.places) or at >= len(subject.places):
        return None
    alternatives = dict(oracle.places[at].alternatives)
    if len(alternatives) < 2 or len(subject.places[at].alternatives) < 2:
        return None
    best, second, *_ = sorted(alternatives.values(), reverse=True)
    chosen, other = (alternatives.get(place.places[at].token) for place in (oracle, subject))
    if best - second >= GAP or chosen is None or best - chosen >= GAP:
        return None
    if other is None:
        other = min(alternatives.values())
    return best - second if best - other < GAP else None


def _followed(
    oracle: Object, subject: Object, left: TokenList, right: TokenList, places: Sequence[Place]
) -> Object:
    """The subject's choice with the oracle's words from the tie on."""
    at = len(places)
    taken = with_tokens(subject, right, [*places, *left.places[at:]])
    taken = _reasons_of(oracle, taken)
    said = "".join(place.text for place in places)
    for keys in (("text",), ("message", "content"), ("delta", "content")):
        theirs, ours = _get(oracle, keys), _get(taken, keys)
        if isinstance(theirs, str) and isinstance(ours, str):
            length = _common(theirs, said)
            taken = _put(taken, keys, ours[:length] + theirs[length:])
    ids, own = oracle.get("token_ids"), taken.get("token_ids")
    if isinstance(ids, list) and isinstance(own, list):
        kept = max(0, at - (len(left.places) - len(ids)))  # an echoed prompt has tokens and no ids
        taken = {**taken, "token_ids": [*own[:kept], *ids[kept:]]}
    return taken


def _common(text: str, said: str) -> int:
    """How much of the text is certainly made of these tokens: special ones are no part of a text."""
    length = 0
    while length < min(len(text), len(said)) and text[length] == said[length]:
        length += 1
    return length


def _choices(body: Json) -> list[Object] | None:
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        return None
    return choices


def _usage_of(oracle: Json, subject: Json) -> Any:
    """`subject` with the oracle's usage, where both have one."""
    if not isinstance(oracle, dict) or not isinstance(subject, dict):
        return subject
    if oracle.get("usage") is None or subject.get("usage") is None:
        return subject
    return {**subject, "usage": oracle["usage"]}


def _reasons_of(oracle: Json, subject: Json) -> Any:
    """`subject` with the oracle's reasons for its end, of those keys that both have."""
    if not isinstance(oracle, dict) or not isinstance(subject, dict):
        return subject
    shared = [key for key in ("finish_reason", "stop_reason") if key in oracle and key in subject]
    return {**subject, **{key: oracle[key] for key in shared}}


def _get(choice: Object, keys: tuple[str, ...]) -> Json:
    value: Json = choice
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _put(choice: Object, keys: tuple[str, ...], value: Json) -> Object:
    first, *others = keys
    return {**choice, first: _put(choice[first], tuple(others), value) if others else value}
