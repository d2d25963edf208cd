"""What clients send that is not quite right: values beside what a key takes, bodies that are no JSON, routes that are none.

Numbers that a file cannot hold, and halves of characters, are written as the JSON text that they are (`$json`).
"""

from __future__ import annotations

import json
from typing import Any

from parity.fuzz.drawing.hand import Hand

JSON_TYPE = {"content-type": "application/json"}


def _text(json_text: str) -> dict[str, str]:
    return {"$json": json_text}


ANYTHING: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    -2,
    1.5,
    2.0,
    0.5,
    -0.5,
    "",
    "x",
    "1",
    "true",
    " 2 ",
    "é😀",
    [],
    {},
    [1],
    [-1],
    ["a"],
    [None],
    [[1]],
    [True],
    {"a": 1},
    {"1": "1"},
    {"": None},
    512,
    511,
    257,
    21,
    20,
    1e-9,
    1e300,
    _text("9223372036854775807"),
    _text("9223372036854775808"),
    _text("-9223372036854775809"),
    _text("18446744073709551616"),
    _text("-0.0"),
    _text("1e2"),
    _text('"\\u0000"'),
    _text('"' + "a" * 300 + '"'),
    _text("[" * 12 + "]" * 12),
    _text('{"a":' * 8 + "1" + "}" * 8),
)

_HALF = _text('"\\ud800"')  # of a character; elsewhere it is 500 upstream, by record

# Values that a key is known to take badly, beside those of ANYTHING.
BESIDE: dict[str, tuple[Any, ...]] = {
    "temperature": (2.01, -0.01, 2, 1e-9, "0", 0.009),
    "top_p": (0, 1.01, 1.0000001, "0.5"),
    "top_k": (-2, 1.0, "5", 512, 513),
    "min_p": (1.01, -0.01, "0"),
    "presence_penalty": (2.01, -2.01, "1", 2.0),
    "frequency_penalty": (2.01, -2.01, "1"),
    "repetition_penalty": (0, -1, 1e-7, "2", 1e9),
    "logit_bias": (
        {"512": 1},
        {"511": 1},
        {"-1": 1},
        {"5": 101},
        {"5": None},
        {"05": 100},
        {" 5": 100},
        {"5.0": 1},
        {"5": "7"},
    ),
    "stop": (["a", ""], "", ["a"] * 5, [[]], ["a", None], {"a": "b"}),
    "stop_token_ids": ([1.0], ["5"], [5, None], [True], [-1], 5),
    "min_tokens": (17, 16, -1, "1", 1.0),
    "max_tokens": (0, -1, 2.0, "3", 256, 257, 255, None),
    "max_completion_tokens": (0, -1, 2.0, "3", 256, 257, 255),
    "n": (0, 17, -1, "2", 2.0, 1.5),
    "seed": (-1, 2.0, "7", 1.5, True),
    "logprobs": (21, 20, -1, 2.0, "2", 1.5, True, 0),
    "top_logprobs": (21, -1, -2, 2.0, "2", True, 1.5, 0),
    "prompt_logprobs": (21, -1, -2, 1.0, True, "1", 0.5),
    "truncate_prompt_tokens": (0, -2, 256, 257, "3", 3.0),
    "truncation_side": ("middle", "LEFT", ""),
    "echo": (1, "yes", "no", 0, 2),
    "stream": (1, "yes", 0, "off", "False"),
    "stream_options": ({"include_usage": 1}, {"include_usage": "x"}, {"other": 1}, [], "", 0),
    "stream_interval": (0, -1, 2.0, "3"),
    "prompt": (
        [5, "a"],
        ["a", 5],
        [[5], "a"],
        [[]],
        [""],
        [5, -1],
        [512],
        [[512]],
        [True],
        [5.0],
        {"prompt": "a"},
        [[5], []],
        [None],
    ),
    "messages": (
        [],
        [{}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "text", "text": None}]}],
        [{"role": "user", "content": ["a", "b"]}],
        [{"role": "user", "content": [{"text": "a"}]}],
        [{"role": "user", "content": [{"type": "refusal", "refusal": "a"}]}],
        [{"role": "", "content": "a"}],
        [{"role": 5, "content": "a"}],
        [{"role": "assistant", "content": None}],
        [{"role": "assistant"}],
        [{"role": "assistant", "content": "a", "tool_calls": []}],
        [{"role": "tool", "content": "a"}],
        [{"role": "user", "content": "a", "name": 5}],
        [{"role": "user", "content": "a", "more": {"b": 1}}],
        [{"role": "function", "content": "a", "name": "f"}],
        [{"content": "a"}],
        ["a"],
        [None],
        {"role": "user", "content": "a"},
    ),
    "model": ("", "nope", None, "tiny-opt ", "TINY-OPT", _HALF),
    "tokens": ([512], [-1], [5.0], ["5"], [True], [[5]], None, [5, None], _text("[9223372036854775808]")),
    "cache_salt": ("", 5),
    "vllm_xargs": ({"a": None}, {"a": {"b": 1}}, {"a": [1, "b", 0.5]}, {"a": True}),
    "request_id": (5, None),
    "tools": (
        [],
        [{}],
        [{"type": "function", "function": {"name": "f"}}],
        [{"function": {"name": "f", "parameters": {}}}],
        None,
    ),
    "tool_choice": ("auto", "required", "x", {}, {"type": "function", "function": {"name": "f"}}),
}
UNKNOWN = ("prompt ", "Prompt", "max-tokens", "", "é", "__class__", "self", "model_config", "n ")

ROUTES = (
    "/v1/completions",
    "/v1/chat/completions",
    "/tokenize",
    "/detokenize",
    "/health",
    "/ping",
    "/load",
    "/v1/models/",
    "/v1/models/tiny-opt",
    "/v1/completions/",
    "/v1/chat/completions/",
    "/v1/completions?a=1&a=2",
    "/v1/chat",
    "/v1",
    "/",
    "//health",
    "/health/",
    "/HEALTH",
    "/v1/nothing",
    "/v1/%63ompletions",
    "/v1/models/%2e%2e",
    "/tokenize/",
    "/health?é".replace("é", "%C3%A9"),
)
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")
TYPES = (
    "application/json",
    "application/json;charset=utf-8",
    "APPLICATION/JSON",
    "text/json",
    "application/json, text/plain",
    "",
    "application/jsonl",
    "multipart/form-data",
)


def odd_value(hand: Hand, key: str) -> Any:
    """A value that `key` may not take."""
    own = BESIDE.get(key, ())
    if own and hand.chance(3, 5):
        return hand.pick(own)
    return hand.pick(ANYTHING)


def raw_text(hand: Hand, body: dict[str, Any]) -> str:
    """A body as a text that no library writes: cut off, with keys that stand twice, or beside JSON."""
    text = json.dumps(body)
    inner = text[1:-1]
    twice = hand.pick(
        (
            '"max_tokens": 3',
            '"max_tokens": "x"',
            '"n": 0',
            '"stream": true',
            '"model": "nope"',
            '"temperature": 0',
        )
    )
    match hand.below(12):
        case 0:
            return "{" + f"{twice}, {inner}" + "}"
        case 1:
            return "{" + f"{inner}, {twice}" + "}"
        case 2:
            return text[: hand.below(len(text))]
        case 3:
            return text + hand.pick((" ", "\n\n", "x", "{}", ",", "\x00"))
        case 4:
            return hand.pick((" ", "\ufeff", "\n", "//a\n", "[", ",")) + text
        case 5:
            return "{" + f"{inner}," + "}"
        case 6:
            return text.replace('"', "'")
        case 7:
            number = hand.pick(
                ("1e400", "-1e400", "NaN", "01", "1.", ".5", "+1", "0x10", "1e1", "-0", "1_0", "-")
            )
            return "{" + f'{inner}, "max_tokens": {number}' + "}"
        case 8:
            return "null"  # other JSON that is no object is 500 upstream, by record, and hides whatever is behind it
        case 9:
            return json.dumps(body, indent=hand.below(5), ensure_ascii=False)
        case 10:
            return text.replace(": ", hand.pick((":", " :\t", ":\n")))
        case _:
            return (
                "{"
                + f'{inner}, "user": "'
                + hand.pick(("\t", "\\x", "\\ud83d", "\\ud83d\\ude00", "\\u12", "\x7f", "\\/"))
                + '"}'
            )
