"""Whether the usage of an answer is the number of tokens that its client can count.

A client counts token ids where it asked for them, else tokens with log probabilities: of a completion with `echo`
those of the prompt stand before them, of each choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from parity.observation import Answer
from parity.scenario import Exchange, Json
from parity.serve.normalise import CUT
from parity.serve_shapes import role_of

Object = dict[str, Any]
IMPOSSIBLE = ("decreasing", "unequal")  # what `Stream.usage` says of usages that contradict each other
ROLES = ("completions", "chat")  # the endpoints that count so; others count under other names
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def miscount(exchange: Exchange, answer: Answer) -> tuple[str, Json] | None:
    """Where the usage does not add up and what stands there; null where it does, or where there is none.

    Only of ROLES.
    """
    if role_of(exchange) not in ROLES:
        return None
    if answer.stream is not None and answer.stream.usage in IMPOSSIBLE:
        return "stream.usage", answer.stream.usage
    found = _usage(answer)
    if found is None:
        return None
    at, usage = found
    if any(usage.get(name) == CUT for name in _COUNTS):
        return None  # the player left out what is a matter of time
    counts = [usage.get(name) for name in _COUNTS]
    if not all(type(count) is int for count in counts):
        return at, usage
    prompt, completion, total = (int(count) for count in counts if count is not None)
    if total != prompt + completion:
        return f"{at}.total_tokens", total
    visible = _visible(exchange, answer, prompt)
    if visible is not None and visible != completion:
        return f"{at}.completion_tokens", completion
    return None


def choices_of(answer: Answer) -> Iterator[Object]:
    """The choices as objects: of a body, or what a stream's frames say together."""
    if answer.stream is not None:
        yield from (choice.joined for choice in answer.stream.choices if isinstance(choice.joined, dict))
    elif isinstance(answer.body, dict) and isinstance(answer.body.get("choices"), list):
        yield from (choice for choice in answer.body["choices"] if isinstance(choice, dict))


def _usage(answer: Answer) -> tuple[str, Object] | None:
    if answer.stream is None:
        usage = answer.body.get("usage") if isinstance(answer.body, dict) else None
        return ("body.usage", usage) if isinstance(usage, dict) else None
    for index in reversed(range(len(answer.stream.rest))):
        entry = answer.stream.rest[index]
        if isinstance(entry, dict) and isinstance(entry.get("usage"), dict):
            return f"stream.rest[{index}].usage", entry["usage"]
    return None


def _visible(exchange: Exchange, answer: Answer, prompt_tokens: int) -> int | None:
    """The number of completion tokens that the client sees; null where one of the choices shows none."""
    expected = len(answer.stream.choices) if answer.stream is not None else None
    choices = list(choices_of(answer))
    if not choices or expected not in (None, len(choices)):
        return None
    if all(isinstance(choice.get("token_ids"), list) for choice in choices):
        return sum(len(choice["token_ids"]) for choice in choices)
    listed = [_listed(choice) for choice in choices]
    if any(number is None for number in listed):
        return None
    total = sum(number for number in listed if number is not None)
    asked = _asked(exchange)
    if not asked.get("echo") or "messages" in asked:
        return total
    return total - prompt_tokens * (asked["n"] if isinstance(asked.get("n"), int) else 1)


def _listed(choice: Object) -> int | None:
    """How many tokens the choice lists with log probabilities, in either endpoint's form."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    tokens = logprobs.get("tokens", logprobs.get("content"))
    return len(tokens) if isinstance(tokens, list) else None


def _asked(exchange: Exchange) -> Object:
    """The request's body where it is a JSON object."""
    try:
        body = msgspec.json.decode(exchange.content or "null")
    except msgspec.DecodeError:
        return {}
    return body if isinstance(body, dict) else {}
