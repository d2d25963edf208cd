"""What a served script got to see: the behaviours that a hunt over scripts steers by and reports.

They are read off the oracle's observation, so a behaviour is reached where it happened and not where it was asked for.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from parity.observation import Answer, Choice, Serve
from parity.scenario import AtOnce, Exchange, Json, ServeScenario
from parity.serve_shapes import exchange_event, role_of

Object = dict[str, Any]

# By endpoint as `serve_shapes` names it; 5xx is not among them, as whatever brings it is on record and is not drawn.
_STATUSES = {
    "completions": (200, 400, 404, 405),
    "chat": (200, 400, 404, 405),
    "tokenize": (200, 400, 404, 405),
    "models": (200,),
    "metrics": (200,),
    "health": (200, 405),
    "other": (200, 307, 400, 404, 405),
}
_KINDS = ("BadRequestError", "Bad Request", "NotFoundError")
_FINISHES = ("stop", "length")
_OF_CHOICES = (
    "stopped by a string",
    "stopped by a token id",
    "stopped by the end of text",
    "no text",
    "half a character",
    "log probabilities",
    "alternatives",
    "prompt log probabilities",
    "token ids",
    "prompt token ids",
    "tokens as ids",
)
_OF_ANSWERS = (
    "a stream",
    "an error frame",
    "usage on the last frame",
    "usage on every frame",
    "several choices",
    "several prompts",
    "an error with a param",
    "an error without a param",
    "the param of an item",
    "a client left",
)
_OF_SCRIPTS = ("at once", "a preemption", "an error, then an answer", "only errors")

VOCABULARY: tuple[str, ...] = (
    *(f"{endpoint} {status}" for endpoint, statuses in _STATUSES.items() for status in statuses),
    *(f"error {kind}" for kind in _KINDS),
    *(f"finish {reason}" for reason in _FINISHES),
    *_OF_CHOICES,
    *_OF_ANSWERS,
    *_OF_SCRIPTS,
)
_KNOWN = frozenset(VOCABULARY)


def reached(scenario: ServeScenario, observation: Serve) -> frozenset[str]:
    """The names of VOCABULARY that this observation shows."""
    found = set(_of_script(scenario, observation))
    for exchange, answer in zip(scenario.exchanges, observation.exchanges, strict=True):
        found |= set(_of_answer(exchange, answer))
    return frozenset(found & _KNOWN)


def states(observation: Serve) -> set[int]:
    """The numbers (32 bits, equal in every process and version) of the forms that answers have.

    A form is an end, and every key and word of fixed meaning, without texts and numbers.
    """
    return {
        _number([exchange_event(answer), answer.status, _form(answer)]) for answer in observation.exchanges
    }


def _of_script(scenario: ServeScenario, observation: Serve) -> Iterator[str]:
    statuses = [answer.status for answer in observation.exchanges if answer.status is not None]
    errors = [status >= 400 for status in statuses]
    if any(isinstance(action, AtOnce) for action in scenario.script):
        yield "at once"
    if observation.preempted:
        yield "a preemption"
    if any(before and not after for before, after in pairwise(errors)):
        yield "an error, then an answer"
    if errors and all(errors):
        yield "only errors"


def _of_answer(exchange: Exchange, answer: Answer) -> Iterator[str]:
    yield f"{role_of(exchange)} {answer.status}"
    if answer.ending == "left":
        yield "a client left"
    choices: Iterable[Object] = ()
    if answer.stream is not None:
        yield "a stream"
        yield from {"last": ("usage on the last frame",), "every": ("usage on every frame",)}.get(
            answer.stream.usage, ()
        )
        for frame in answer.stream.rest:
            if isinstance(frame, dict) and "error" in frame:
                yield "an error frame"
                yield from _of_error(frame["error"])
        choices = [_told(choice) for choice in answer.stream.choices]
    elif isinstance(answer.body, dict):
        if "error" in answer.body:
            yield from _of_error(answer.body["error"])
        listed = answer.body.get("choices")
        choices = [{**answer.body, **choice} for choice in listed] if isinstance(listed, list) else ()
    yield from _of_choices(list(choices))


def _of_error(error: Json) -> Iterator[str]:
    if not isinstance(error, dict):
        return
    yield f"error {error.get('type')}"
    param = error.get("param")
    yield "an error without a param" if param is None else "an error with a param"
    if isinstance(param, str) and any(part.isdigit() for part in param.split(".")):
        yield "the param of an item"


def _told(choice: Choice) -> Object:
    said = choice.joined if isinstance(choice.joined, dict) else {}
    delta, frame = said.get("delta"), said.get("frame")
    inner = delta if isinstance(delta, dict) else {}
    return {**(frame if isinstance(frame, dict) else {}), **said, **inner}


def _of_choices(choices: list[Object]) -> Iterator[str]:
    if len(choices) > 1:
        yield "several choices"
    prompts = {json.dumps(choice.get("prompt_token_ids")) for choice in choices}
    if len(prompts) > 1:
        yield "several prompts"
    for choice in choices:
        yield from _of_end(choice)
        message = choice.get("message")
        said = message if isinstance(message, dict) else choice
        text = said.get("text", said.get("content"))
        if text == "":
            yield "no text"
        if isinstance(text, str) and "\ufffd" in text:
            yield "half a character"
        yield from _of_lists(choice)


def _of_end(choice: Object) -> Iterator[str]:
    reason, why = choice.get("finish_reason"), choice.get("stop_reason")
    yield f"finish {reason}"
    if reason == "stop":
        names = {str: "stopped by a string", int: "stopped by a token id"}
        yield names.get(type(why), "stopped by the end of text")


def _of_lists(choice: Object) -> Iterator[str]:
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        yield "log probabilities"
        text = json.dumps(logprobs)
        if '"token_id:' in text:
            yield "tokens as ids"
        entries = logprobs.get("content")
        lists = [entry.get("top_logprobs") for entry in entries] if entries else logprobs.get("top_logprobs")
        if any(listed and len(listed) > 1 for listed in lists or ()):
            yield "alternatives"
    for key, name in (
        ("prompt_logprobs", "prompt log probabilities"),
        ("token_ids", "token ids"),
        ("prompt_token_ids", "prompt token ids"),
    ):
        if choice.get(key):
            yield name


def _form(answer: Answer) -> Json:
    if answer.stream is None:
        return _shape(answer.body)
    choices = [[choice.kinds, _shape(choice.joined), _shape(choice.keys)] for choice in answer.stream.choices]
    return [_distinct(choices), _shape(answer.stream.rest), answer.stream.usage]


_WORDS = ("type", "param", "code", "object", "finish_reason", "role", "usage")


def _shape(value: Json, key: str = "") -> Json:
    """A JSON value with its keys and its fixed words; of a list the distinct forms, of anything else its type."""
    if isinstance(value, dict):
        return (
            {name: _shape(item, name) for name, item in sorted(value.items())}
            if key != "top_logprobs"
            else "{}"
        )
    if isinstance(value, list):
        return _distinct([_shape(item, key) for item in value])
    return value if key in _WORDS or value is None else type(value).__name__


def _distinct(values: list[Any]) -> list[Any]:
    return [json.loads(text) for text in sorted({json.dumps(value, sort_keys=True) for value in values})]


def _number(value: Json) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())
