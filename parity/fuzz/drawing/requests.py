"""The requests of a timeline: lengths at the edges, prompts that share, forced outputs that stop, ties of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parity.fuzz.drawing.frame import Frame
from parity.fuzz.drawing.hand import ROLL, Hand, near

Request = dict[str, Any]
Part = dict[str, Any]

EOS = 2
STOP = 5
FILLER = 11  # the first of the ids that stand before a stop in a forced output
MOST_FORCED = 12  # ids that a document spells out

_COUNTS = (1, 2, 3, 2, 4, 3, 5, 4, 3, 6, 2, 8, 10)
_PRIORITIES = (0, 1, 0, -1, 2, 1)
_GAPS = (0, 1, 0, 2, 3, 1, 5, 8)


def draw_requests(hand: Hand, frame: Frame) -> list[Request]:
    count = hand.pick(_COUNTS)
    made = Requests(frame)
    for _ in range(count):
        made.add(hand.rolls(made.rolls))
    return made.requests


class Requests:
    """Requests as they are added; `rolls` is the number of rolls that each takes, whatever comes of them."""

    def __init__(self, frame: Frame) -> None:
        features = frame.features
        self.requests: list[Request] = []
        self.rolls = (
            2
            + 2 * features.sharing
            + features.priority
            + features.stops
            + features.apart
            + (features.arrivals != "at once")
        )
        self._frame = frame
        self._prompts: list[int] = []  # tokens
        self._outputs: list[int] = []  # tokens

    def add(self, rolls: Iterator[int]) -> None:
        """One more request, made of its rolls."""
        features = self._frame.features
        request: Request = {"id": f"r{len(self.requests)}"}
        if features.arrivals != "at once":
            self._arrive(request, next(rolls))
        own = self._own_length(next(rolls))
        output = next(rolls)
        prompt = own
        request["prompt"] = own
        if features.sharing:
            prompt = self._share(request, own, next(rolls), next(rolls))
        request["max_tokens"] = self._output_length(output, prompt)
        if features.stops:
            _stop(request, next(rolls))
        if features.priority:
            _rank(request, next(rolls))
        if features.apart:
            _set_apart(request, next(rolls))
        self._prompts.append(prompt)
        self._outputs.append(request["max_tokens"])
        self.requests.append(request)

    def _arrive(self, request: Request, roll: int) -> None:
        before = self.requests[-1].get("at", 0) if self.requests else 0
        match self._frame.features.arrivals:
            case "spread":
                at = roll // 4
            case "in turn":
                at = before + _GAPS[roll % len(_GAPS)]
            case _:
                at = 0 if roll % 2 else 12 + roll // 3
        if at:
            request["at"] = at

    def _own_length(self, roll: int) -> int:
        """A third anywhere, the others at the edges."""
        frame = self._frame
        spread = ROLL // 3
        if roll < spread:
            return 1 + roll * (frame.most_prompt - 1) // (spread - 1)
        return near(roll - spread, frame.anchors, 1, frame.most_prompt)

    def _output_length(self, roll: int, prompt: int) -> int:
        """Half of them short; the others end at a block's edge, at the model's length, or use what room there is."""
        frame = self._frame
        kind, rest = roll % 8, roll // 8
        delta = (0, -1, 1)[rest % 3]
        most = frame.most_output(prompt)
        if kind < 4:
            wanted = 1 + rest
        elif kind == 4:
            wanted = frame.block_size * (1 + rest // 3 % 2) - prompt % frame.block_size + delta
        elif kind == 5:
            wanted = frame.limit - prompt + delta
            most += wanted <= most + 1
        elif kind == 6:
            wanted = most + delta
        else:
            wanted = 12 + 2 * rest
        return max(1, min(wanted, most))

    def _share(self, request: Request, own: int, kind: int, roll: int) -> int:
        """Make the prompt of parts of earlier ones; its length in tokens."""
        if not self.requests or kind % 8 == 0:
            return own
        source = kind // 8 % len(self.requests)
        if kind % 8 == 1:
            request["seed"] = 7
            return own
        parts = self._parts(kind % 8, source, own, roll)
        parts, length = self._trimmed(parts)
        request["prompt"] = [_part(name, taken, whole) for name, taken, whole in parts]
        return length

    def _parts(self, kind: int, source: int, own: int, roll: int) -> list[_Piece]:
        """Pieces as (key and request, tokens taken, tokens there are); `new` has no request."""
        prompt, output = self._prompts[source], self._outputs[source]
        size = self._frame.block_size
        anchors = (size, prompt, 2 * size, prompt - size, prompt // 2)
        taken = near(roll, anchors, 1, prompt)
        fresh = (("new", ""), max(1, own // 2), 0)
        all_of = (("of", f"r{source}"), prompt, prompt)
        some_of = (("of", f"r{source}"), taken, prompt)
        answer = (("output_of", f"r{source}"), output, output)
        some_answer = (("output_of", f"r{source}"), near(roll, (output, size, 1), 1, output), output)
        other = (source + 1 + roll) % len(self.requests)
        some_other = (
            ("of", f"r{other}"),
            near(roll, (size, self._prompts[other]), 1, self._prompts[other]),
            self._prompts[other],
        )
        forms = (
            [all_of],
            [some_of, fresh],
            [all_of, answer, fresh],
            [some_of],
            [all_of, some_answer],
            [some_answer, some_other],
        )
        return list(forms[kind - 2])

    def _trimmed(self, parts: list[_Piece]) -> tuple[list[_Piece], int]:
        """The parts cut to the longest prompt, and what is left of them in tokens."""
        left = self._frame.most_prompt
        kept: list[_Piece] = []
        for name, taken, whole in parts:
            taken = min(taken, left)
            if taken:
                kept.append((name, taken, whole))
                left -= taken
        return kept, self._frame.most_prompt - left


_Piece = tuple[tuple[str, str], int, int]


def _part(name: tuple[str, str], taken: int, whole: int) -> Part:
    key, source = name
    if key == "new":
        return {"new": taken}
    return {key: source} if taken == whole else {key: source, "take": taken}


def _stop(request: Request, roll: int) -> None:
    """Force a stop into the output, let `min_tokens` hold it back or just not, or make EOS mean nothing."""
    kind, rest = roll % 8, roll // 8
    if kind == 0:
        return
    place = min(rest, request["max_tokens"] - 1)
    if kind == 7:
        request["min_tokens"] = place + 1
        return
    if kind in (4, 5):
        request["min_tokens"] = min(place + 1 + rest % 2, request["max_tokens"])
    by_eos = kind in (1, 3, 4, 6)
    request["output"] = [*range(FILLER, FILLER + min(place, MOST_FORCED)), EOS if by_eos else STOP]
    if by_eos:
        request["eos_token_id"] = EOS
    if kind == 3:
        request["ignore_eos"] = True
    if kind in (2, 5):
        request["stop_token_ids"] = [STOP]
    elif kind == 6:
        request["stop_token_ids"] = [STOP, EOS]


def _rank(request: Request, roll: int) -> None:
    priority = _PRIORITIES[roll % len(_PRIORITIES)]
    if priority:
        request["priority"] = priority
    stamp = roll // len(_PRIORITIES)
    if stamp >= 10:
        request["stamp"] = stamp % 3


def _set_apart(request: Request, roll: int) -> None:
    match roll % 6:
        case 2:
            request["cache_salt"] = "a"
        case 3:
            request["cache_salt"] = "b"
        case 4:
            request["prompt_logprobs"] = roll // 6 % 2
