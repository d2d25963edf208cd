"""Documents of level serve: scripts of a few exchanges that a server answers the same way each time it is asked.

What is left out, because the same script would not be played the same way twice:

- more at once than the pool holds, but in a form that must preempt: who preempts whom else depends on which came first;
- a request with a seed beside one without: on CPU upstream's `forward_cpu` uses seeds only where each request of the batch
  has one, and draws without any for all of them otherwise;
- signals, which cost a start of both servers;
- clients that leave a stream of the small pool's length, or at another time than a frame's: all of it may have come by then;
- `/metrics` while something runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from parity.fuzz.document import Document
from parity.fuzz.drawing.hand import Hand
from parity.fuzz.drawing.serve_bodies import (
    BLOCK,
    CHAT,
    COMPLETIONS,
    Body,
    Room,
    make_odd,
    messages,
    spare,
    text_body,
)
from parity.fuzz.drawing.serve_fields import NAMES, REFUSED
from parity.fuzz.drawing.serve_oddities import JSON_TYPE, METHODS, ROUTES, TYPES, raw_text

Action = dict[str, Any]

SERVERS: tuple[dict[str, Any], ...] = (
    {"model": "tiny-opt", "num_blocks": 64, "max_model_len": 256},
    {"model": "tiny-opt", "num_blocks": 8, "max_model_len": 96},
)
_LONG = 200  # tokens of a stream that a client leaves
_IDLE: Action = {"until": {"running": 0, "waiting": 0, "within": 10}}
_SWARM = (*NAMES, "choices", "batches", "streams", "streams")
_CALM = frozenset(
    {"ids", "penalties", "drawing", "streams", "inert"}
)  # groups that leave an answer its length


class Server(msgspec.Struct, frozen=True):
    """A configuration, and what of it a script must know: usable blocks and the length in tokens."""

    config: dict[str, Any]
    blocks: int
    limit: int


def draw_serve(hand: Hand, servers: Sequence[dict[str, Any]] = SERVERS) -> Document:
    """A document of level serve for one of these configurations, which `case_from` takes."""
    config = hand.pick(servers)
    server = Server(config, config["num_blocks"] - 1, config["max_model_len"])
    script = _Script(hand, server)
    return {"level": "serve", "config": dict(config), "script": script.actions()}


class _Script:
    """One script, action by action; ids are the letters in order."""

    def __init__(self, hand: Hand, server: Server) -> None:
        self._hand = hand
        self._server = server
        self._groups = frozenset(name for name in _SWARM if hand.chance(1, 3))
        self._odd = hand.chance(1, 2)
        self._names = iter("abcdefghijklmnop")

    def actions(self) -> list[Action]:
        """The script; a difference that is on record stands alone, so that it hides nothing and has the recorded shape."""
        hand = self._hand
        if hand.chance(1, 24):
            return [{"send": self._named(self._known_difference())}]
        actions: list[Action] = []
        for _ in range(1 + hand.below(4)):
            actions += self._action()
        return actions

    def _action(self) -> list[Action]:
        hand = self._hand
        kind = hand.below(20)
        if kind < 11:
            return [{"send": self._named(self._generation(self._server.blocks))}]
        if kind < 13:
            return [{"at_once": self._together()}]
        if kind < 15:
            return [{"send": self._named(self._beside())}]
        if kind == 15:
            return self._leaving() if self._server.limit >= _LONG else [self._crowd()]
        if kind == 16:
            return [{"send": self._named(self._route())}]
        if kind == 17:
            return [dict(_IDLE), {"send": self._named({"path": "/metrics"})}]
        return [{"send": self._named(self._raw())}]

    def _named(self, exchange: Action) -> Action:
        return {"id": next(self._names), **exchange}

    def _generation(self, blocks: int, drawn: bool | None = None) -> Action:
        hand = self._hand
        path = CHAT if blocks > 2 and hand.chance(2, 5) else COMPLETIONS
        body = text_body(hand, path, Room(blocks, self._server.limit, self._groups, drawn))
        if self._odd and blocks == self._server.blocks and hand.chance(3, 4):
            make_odd(hand, body, path)
            if hand.chance(1, 6):
                make_odd(hand, body, path)
        spare(body)
        exchange: Action = {"path": path, "body": body}
        if "inert" in self._groups and hand.chance(1, 5):
            exchange["headers"] = {"x-request-id": hand.pick(("mine", "a b", ""))}
        return exchange

    def _together(self) -> list[Action]:
        """Two to four at once, which fit into the pool together."""
        hand = self._hand
        count = 2 + hand.below(3 if self._server.blocks > 16 else 2)
        share, drawn = self._server.blocks // count, hand.chance(1, 2)
        return [
            self._named(self._generation(share, drawn) if hand.chance(6, 7) else self._beside())
            for _ in range(count)
        ]

    def _crowd(self) -> Action:
        """Prompts that each start with 3 blocks of the 7 and soon need a fourth: whichever is first, one is preempted."""
        hand = self._hand
        room = Room(1, self._server.limit, self._groups & _CALM)
        body = text_body(hand, COMPLETIONS, room)
        prompts = [{"$ids": 3 * BLOCK - 1 - hand.below(4), "$seed": at} for at in range(2 + hand.below(2))]
        body.update(prompt=prompts, max_tokens=BLOCK, ignore_eos=True)
        for key in ("cache_salt", "stop", "stop_token_ids"):
            body.pop(key, None)
        return {"send": self._named({"path": COMPLETIONS, "body": body})}

    def _leaving(self) -> list[Action]:
        """A long stream whose client hangs up; the next one comes when the server has noticed.

        Its first token is a whole character: a part of one has no text until the next token, which may be in the same frame.
        """
        hand = self._hand
        body: Body = {"max_tokens": _LONG, "temperature": 0, "ignore_eos": True, "stream": True}
        path = hand.pick((COMPLETIONS, CHAT))
        if path == COMPLETIONS:
            body["prompt"] = "hello"
        else:
            body["messages"] = [{"role": "user", "content": "hello"}]
        if "ids" in self._groups:
            body["return_token_ids"] = True
        gone = self._named({"path": path, "body": body, "leave_after": 1 + hand.below(2)})
        return [{"send": gone}, dict(_IDLE)]

    def _beside(self) -> Action:
        """A request to the tokenizer, or for the state of the server."""
        hand = self._hand
        kind = hand.below(8)
        if kind < 2:
            return {"path": "/health"}
        if kind < 4:
            body: Body = {"tokens": hand.pick(([5, 73], [2, 260, 2], [], [511], [0, 1, 2, 3]))}
            path = "/detokenize"
        elif kind < 6:
            path, body = "/tokenize", {"prompt": hand.pick(("hello", "", "é 😀", "a</s>b", "日本", "\n"))}
        else:
            path, body = "/tokenize", {"messages": messages(hand, 3)}
            if hand.chance(2, 5):
                body["add_generation_prompt"] = hand.chance(1, 2)
            if hand.chance(1, 4):
                body["prompt"] = "hello"
        for key in ("add_special_tokens", "return_token_strs"):
            if path == "/tokenize" and hand.chance(2, 5):
                body[key] = hand.pick((True, False))
        if self._odd and hand.chance(2, 3):
            make_odd(hand, body, path)
        return {"path": path, "body": body}

    def _route(self) -> Action:
        hand = self._hand
        exchange: Action = {"path": hand.pick(ROUTES), "method": hand.pick(METHODS)}
        if hand.chance(1, 2):
            exchange["raw"] = hand.pick(("{}", "", '{"prompt": "a", "max_tokens": 1, "temperature": 0}'))
            exchange["headers"] = dict(JSON_TYPE)
        return exchange

    def _raw(self) -> Action:
        """A good body as a text that is none any more, or with a content type that is none."""
        hand = self._hand
        body: Body = {"max_tokens": 2, "temperature": 0, "model": "tiny-opt"}
        path = hand.pick((COMPLETIONS, CHAT, COMPLETIONS, CHAT, "/tokenize"))
        if path == CHAT:
            body["messages"] = messages(hand, 2)
        else:
            body["prompt"] = "hello"
        exchange = {"path": path, "raw": raw_text(hand, body), "headers": dict(JSON_TYPE)}
        if hand.chance(1, 5):
            exchange["headers"] = {"content-type": hand.pick(TYPES)}
        return exchange

    def _known_difference(self) -> Action:
        hand = self._hand
        if hand.chance(1, 4):
            return {"path": "/v1/models"}
        if hand.chance(1, 4):
            return {"path": "/tokenize", "raw": hand.pick(("[]", '"hello"', "5")), "headers": dict(JSON_TYPE)}
        body: Body = {"max_tokens": 2, "temperature": 0, "prompt": "hello", **hand.pick(REFUSED)}
        return {"path": COMPLETIONS, "body": body}
