"""Greedy choices that no float decides: where the oracle's two best tokens are closer than its arithmetic is exact.

`settle` takes such places out of the comparison, before anything is compared: the subject's answer with the
oracle's words from there on. What it takes over is exactly this, and all else is left as it is:

tie       Both choices list their tokens with log probabilities and with alternatives. Token k is the first that
          differs. What led to it is the same on both sides, so both lists of alternatives at k have to agree
          within the tolerance of `numerics`, rank by rank and token by token, those that are as good as the best
          among each other; the oracle's two best are less than GAP apart, and both tokens as good as the best
          (within GAP of it; the subject's, by its own account, within the tolerance more). Then tokens, ids, log
          probabilities and text from k on are the oracle's, and of the end what `tied_ends` lets follow from it.
          No tie where the number of tokens could not follow from one, or where tokens are named by their ids, so
          that nobody can tell how much text stood before k.
exchange  At a place where both chose the same token, the alternatives are as many, agree rank by rank within the
          tolerance of `numerics`, each that both list has the same value within it, and each that only one lists is
          within it of the lowest that the other lists. Then they are the oracle's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parity.finding import Tie
from parity.numerics import TOLERANCE
from parity.observation import Answer, Choice, Serve, Stream
from parity.scenario import Json
from parity.tied_ends import may_last, reasons_of, usage_of
from parity.token_lists import Object, Place, TokenList, token_list, with_tokens

GAP = 1e-3
_BY_ID = "token_id:"  # how a token is named where a request asks for ids


class _Tied(msgspec.Struct, frozen=True):
    """A tie of one choice: its position, the oracle's gap, and by how many tokens the subject went on longer."""

    position: int
    gap: float
    longer: int


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
    choices, ties, longer = [], [], 0
    for index, (theirs, ours) in enumerate(zip(left, right, strict=True)):
        choice, tied = _settle_choice(theirs, ours)
        choices.append(choice)
        if tied is not None:
            ties.append(Tie(subject.id, index, tied.position, tied.gap))
            longer += tied.longer
    body = {**subject.body, "choices": choices}
    return msgspec.structs.replace(subject, body=usage_of(body, longer) if ties else body), ties


def _settle_stream(theirs: Stream, ours: Stream, exchange: str) -> tuple[Stream, list[Tie]]:
    if [choice.index for choice in theirs.choices] != [choice.index for choice in ours.choices]:
        return ours, []
    choices, ties, longer = [], [], 0
    for left, right in zip(theirs.choices, ours.choices, strict=True):
        choice, tied = _settle_joined(left, right)
        choices.append(choice)
        if tied is not None:
            ties.append(Tie(exchange, left.index, tied.position, tied.gap))
            longer += tied.longer
    rest = [usage_of(entry, longer) for entry in ours.rest] if ties else ours.rest
    return msgspec.structs.replace(ours, choices=choices, rest=rest), ties


def _settle_joined(oracle: Choice, subject: Choice) -> tuple[Choice, _Tied | None]:
    if not isinstance(oracle.joined, dict) or not isinstance(subject.joined, dict):
        return subject, None
    joined, tied = _settle_choice(oracle.joined, subject.joined)
    finish = subject.finish
    if tied is not None:
        if "frame" in joined:
            frame = usage_of(joined["frame"], tied.longer)
            joined = {**joined, "frame": frame}
        finish = reasons_of(oracle.finish, finish)
    return msgspec.structs.replace(subject, joined=joined, finish=finish), tied


def _settle_choice(oracle: Object, subject: Object) -> tuple[Object, _Tied | None]:
    """One choice, of a body or a stream, and its tie."""
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
    longer = len(right.places) - len(left.places)
    if gap is None or not may_last(oracle, subject, longer):
        return with_tokens(subject, right, [*places, *right.places[at:]]), None
    return _followed(oracle, subject, left, right, places), _Tied(at, gap, longer)


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
    if any(place.text.startswith(_BY_ID) for place in oracle.places[:at]):
        return None
    theirs, ours = oracle.places[at], subject.places[at]
    if min(len(theirs.alternatives), len(ours.alternatives)) < 2 or set(theirs.raw) != set(ours.raw):
        return None
    best, second, *_ = _ranked(theirs.alternatives)
    if best - second >= GAP or not _is_best(theirs, best - GAP) or not _is_best(ours, best - GAP - TOLERANCE):
        return None
    return best - second if _agree(theirs.alternatives, ours.alternatives, best) else None


def _is_best(place: Place, least: float) -> bool:
    """Whether the place's own token has more than `least`, wherever its value stands."""
    values = [place.value, dict(place.alternatives).get(place.token, place.value)]
    return all(value is not None and value > least for value in values)


def _agree(oracle: Sequence[tuple[str, float]], subject: Sequence[tuple[str, float]], best: float) -> bool:
    """Whether two lists of alternatives are of one distribution whose best are not told apart.

    Each has the most likely tokens, and its own token where that is none of them: so one may have one more. One
    token at least is in both, or the lists speak of other tokens altogether.
    """
    lists = (dict(oracle), dict(subject))
    if abs(len(oracle) - len(subject)) > 1 or lists[0].keys().isdisjoint(lists[1]):
        return False
    ranks = zip(_ranked(oracle), _ranked(subject), strict=False)
    if any(abs(left - right) > TOLERANCE for left, right in ranks):
        return False
    for values, others in (lists, lists[::-1]):
        lowest = min(others.values())
        for token, value in values.items():
            other = others.get(token, lowest)
            if abs(value - other) > TOLERANCE and min(value, other) <= best - GAP - TOLERANCE:
                return False
    return True


def _followed(
    oracle: Object, subject: Object, left: TokenList, right: TokenList, places: Sequence[Place]
) -> Object:
    """The subject's choice with the oracle's words from the tie on."""
    at = len(places)
    taken = with_tokens(subject, right, [*places, *left.places[at:]])
    taken = reasons_of(oracle, taken)
    said = "".join(place.text for place in places)
    for keys in (("text",), ("message", "content"), ("delta", "content")):
        theirs, ours = _get(oracle, keys), _get(taken, keys)
        if isinstance(theirs, str) and isinstance(ours, str):
            length = _common(theirs, said)
            taken = _put(taken, keys, ours[:length] + theirs[length:])
    ids, own = oracle.get("token_ids"), taken.get("token_ids")
    longer = len(right.places) - len(left.places)
    if isinstance(ids, list) and isinstance(own, list) and len(own) - len(ids) == longer:
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


def _get(choice: Object, keys: tuple[str, ...]) -> Json:
    value: Json = choice
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _put(choice: Object, keys: tuple[str, ...], value: Json) -> Object:
    first, *others = keys
    return {**choice, first: _put(choice[first], tuple(others), value) if others else value}
