"""The body of one request for text, so that it means the same every time that it is sent, and fits where it is sent.

What is drawn has a seed, because upstream draws without one where none is given. How much of the pool a body may need is
given from outside: whether two requests at once preempt one another would else be a matter of which came first.
"""

from __future__ import annotations

from typing import Any

import msgspec

from parity.fuzz.drawing.hand import Hand
from parity.fuzz.drawing.serve_fields import GROUPS, INTERVALS, STREAM_OPTIONS
from parity.fuzz.drawing.serve_oddities import UNKNOWN, odd_value

Body = dict[str, Any]

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
MOST_TOKENS = 16  # of an answer that the client waits for
BLOCK = 16  # tokens
VOCABULARY = 512  # of the small model
_CHAT_BLOCKS = 2  # that a conversation of one message and its answer need at least
_TEXT_BLOCKS = 3  # that no text below and its answer need more than
_TEXTS = (
    "hello",
    "hello world",
    "a",
    "é",
    "日本 text",
    "😀",
    " lead",
    "trail ",
    "a\nb\tc",
    "<s>a</s>",
    "</s>",
    "a\u0000b",
    "\u200b",
    "e\u0301",
    "The quick brown fox",
)
_ROLES = ("user", "system", "assistant", "developer", "tool", "robot")
_SEEDS = (0, 1, 7, 2**31, 2**63 - 1)


class Room(msgspec.Struct, frozen=True):
    """What a body may use: `blocks` of the pool for all its choices together, `limit` tokens for each, and the script's groups.

    `drawn` says whether it samples, for what runs beside others must do as they do; null where it is alone.
    """

    blocks: int
    limit: int
    groups: frozenset[str]
    drawn: bool | None = None


def text_body(hand: Hand, path: str, room: Room) -> Body:
    """A body that upstream answers with 200, or nearly always."""
    choices = _choices(hand, room, 1 if path == COMPLETIONS else _CHAT_BLOCKS)
    share = room.blocks // choices
    body: Body = {"max_tokens": max(1, min(MOST_TOKENS - hand.below(MOST_TOKENS), share * BLOCK - 1))}
    if path == COMPLETIONS:
        prompts = hand.below(choices) + 1 if "batches" in room.groups else 1
        body["prompt"] = _prompt(hand, share, prompts, body["max_tokens"], room.limit)
        choices = choices // prompts if room.drawn is not False else 1
    else:
        body["messages"] = messages(hand, min(share - 1, 3))
        if "template" in room.groups and hand.chance(2, 5):
            body["max_completion_tokens"] = body.pop("max_tokens")
    _sample(hand, body, choices, room.drawn)
    for group in sorted(room.groups & GROUPS[path].keys()):
        for key, values in GROUPS[path][group].items():
            if hand.chance(*((1, 5) if group == "inert" else (3, 5))):
                body[key] = hand.pick(values)
    if "streams" in room.groups and hand.chance(3, 5):
        _stream(hand, body)
    _settle(body)
    return body


def messages(hand: Hand, most: int) -> list[Any]:
    """One to `most` messages of a conversation."""
    found: list[Any] = []
    for _ in range(1 + hand.below(max(most, 1))):
        role = hand.pick(_ROLES[:3]) if hand.chance(6, 7) else hand.pick(_ROLES)
        text = hand.pick(_TEXTS)
        content: Any = text
        if hand.chance(1, 7):
            content = [{"type": "text", "text": text}, {"type": "text", "text": "b"}]
        found.append({"role": role, "content": content})
    return found


def make_odd(hand: Hand, body: Body, path: str) -> None:
    """Lay one value that may be wrong over a body, or a key that nobody knows. Draws stay the same each time."""
    groups = GROUPS.get(path, {})
    keys = sorted({*body, *(key for group in groups.values() for key in group), "model"})
    if path in GROUPS:
        keys += ["temperature", "seed", "n", "stream", "stream_options", "stream_interval", "max_tokens"]
    if hand.chance(1, 16):
        body[hand.pick(UNKNOWN)] = odd_value(hand, "")
        return
    key = hand.pick(keys)
    body[key] = odd_value(hand, key)
    if key in ("temperature", "seed", "top_k"):  # whatever is made of it, nothing is drawn without a seed
        body["top_k"] = body["top_k"] if key == "top_k" else 1
        if key == "top_k":
            body["temperature"] = 0


def spare(body: Body) -> None:
    """Take out what ends upstream's server, as a play whose server dies is void, and what it answers by chance.

    - With `min_tokens` it forbids the stop ids by writing to their places among the logits, also beyond the vocabulary
      (`MinTokensLogitsProcessor.apply`).
    - A stream of several choices loses the prompt's log probabilities of one whose first frame is merged with a later frame
      of another, and then fails on the echo.
    """
    stops = body.get("stop_token_ids")
    if body.get("min_tokens") and isinstance(stops, list):
        inside = range(-VOCABULARY, VOCABULARY)
        body["stop_token_ids"] = [stop for stop in stops if not isinstance(stop, int) or stop in inside]
    if body.get("stream") and body.get("echo") and "logprobs" in body and body.get("n", 1) != 1:
        del body["echo"]


def _choices(hand: Hand, room: Room, needed: int) -> int:
    """How many answers there are to be, each of at least `needed` blocks: over all prompts of the body."""
    wanted = {"choices"} if needed > 1 else {"choices", "batches"}
    if room.drawn is False:
        wanted.discard("choices")
    return 1 + hand.below(min(4, room.blocks // needed)) if room.groups & wanted else 1


def _prompt(hand: Hand, share: int, prompts: int, max_tokens: int, limit: int) -> Any:
    if share >= _TEXT_BLOCKS and hand.chance(4, 9):
        texts = [hand.pick(_TEXTS) for _ in range(prompts)]
        return texts[0] if prompts == 1 and hand.chance(4, 5) else texts
    most = min(share * BLOCK - max_tokens, limit)
    anchors = (5, BLOCK, 2 * BLOCK, most, limit - max_tokens, 3 * BLOCK)
    lists = [{"$ids": hand.near(anchors, 1, max(most, 1)), "$seed": hand.below(6)} for _ in range(prompts)]
    return lists[0] if prompts == 1 and hand.chance(4, 5) else lists


def _sample(hand: Hand, body: Body, choices: int, drawn: bool | None) -> None:
    """Greedy, or drawn with a seed; several choices are drawn, as greedy ones are refused."""
    if choices > 1:
        body["n"] = choices
    if choices > 1 or drawn or (drawn is None and hand.chance(1, 3)):
        body["temperature"] = hand.pick((1, 0.7, 2, 0.01, 1.3))
        body["seed"] = hand.pick(_SEEDS)
    else:
        body["temperature"] = 0


def _stream(hand: Hand, body: Body) -> None:
    body["stream"] = True
    if hand.chance(3, 5):
        body["stream_options"] = hand.pick(STREAM_OPTIONS)
    if hand.chance(1, 5):
        body["stream_interval"] = hand.pick(INTERVALS)


def _settle(body: Body) -> None:
    """Take out what would refuse a body for how its keys go together; such bodies come from `make_odd`."""
    if body.get("stream") and body.get("prompt_logprobs"):
        del body["prompt_logprobs"]
    if body.get("min_tokens", 0) > body.get("max_tokens", body.get("max_completion_tokens", MOST_TOKENS)):
        body["min_tokens"] = 1
    if body.get("top_logprobs") and not body.get("logprobs"):
        body["logprobs"] = True
    if body.get("continue_final_message") and body.get("add_generation_prompt", True):
        body["add_generation_prompt"] = False
