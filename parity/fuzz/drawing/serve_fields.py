"""The keys of a body that upstream takes, with values that it takes: what a script's bodies are made of.

Keys come in groups, and a script has some of the groups only (swarm testing): with every key at once, most answers would
be of one token. The token ids are few, so that a bias, a stop id and the end of the text meet in one body. Of a prompt no
long lists of log probabilities are asked for: near equals in them change places.
"""

from __future__ import annotations

from typing import Any

Values = tuple[Any, ...]

IDS = (2, 5, 73, 130, 260, 300, 445)  # 2 ends a text of the small model
BIASES: Values = (
    {"260": 100},
    {"2": 100},
    {"73": 100, "130": 99.5},
    {"445": -100, "2": 3},
    {"5": 1.5},
    {},
    {"300": 100, "2": 100},
    {"1": 100},
    {"0": 100},
)
STOPS: Values = (
    "t",
    ["e"],
    " ",
    ["s t", "a"],
    [],
    ["\n", "o", "r"],
    None,
    "zzzz",
    ["in", "n"],
    "é",
    ["ar", "arn"],
)

_GROUPS: dict[str, dict[str, Values]] = {
    "drawing": {
        "top_p": (1, 0.9, 0.5, 0.1, None, 1e-6),
        "top_k": (0, 5, -1, 1, 50, 1000, None, 2),
        "min_p": (0, 0.05, 0.5, 1, None),
    },
    "penalties": {
        "presence_penalty": (0, 2, -2, 0.5, None),
        "frequency_penalty": (0, 1.5, -2, 2, None),
        "repetition_penalty": (1, 1.3, 2, 0.5, None, 0.01),
    },
    "bias": {"logit_bias": BIASES},
    "stops": {
        "stop": STOPS,
        "stop_token_ids": ([260], [2], [73, 130], [], None, [445, 445], [511, 512], [5, 2]),
        "include_stop_str_in_output": (True, False),
    },
    "ends": {"ignore_eos": (True, False), "min_tokens": (0, 1, 2, 5)},
    "texts": {
        "skip_special_tokens": (False, True),
        "spaces_between_special_tokens": (False, True),
        "add_special_tokens": (True, False),
        "echo": (True, False),
    },
    "ids": {"return_token_ids": (True, False, None), "return_tokens_as_token_ids": (True, False, None)},
    "cutting": {
        "truncate_prompt_tokens": (3, 1, -1, 16, 255, None),
        "truncation_side": ("left", "right", None),
    },
    "inert": {
        "user": ("u", "", None),
        "cache_salt": ("s", "é", None),
        "priority": (0, 1, -3),
        "request_id": ("mine", "", "a b", "é"),
        "vllm_xargs": ({"a": 1}, {}, None),
        "kv_transfer_params": ({}, None, {"a": [1, {"b": None}]}),
        "length_penalty": (1, 0.5),
        "best_of": (1, 2, "x"),
        "unknown_field": (None, 5, [{}]),
        "return_token_offsets": (True, None),
        "suffix": (None,),
    },
}

_COMPLETION: dict[str, dict[str, Values]] = {
    "logprobs": {"logprobs": (2, 0, 1, 20, None, 5), "prompt_logprobs": (0, 1, None, 3)},
}
_CHAT: dict[str, dict[str, Values]] = {
    "logprobs": {
        "logprobs": (True, True, True, False, None),
        "top_logprobs": (2, 0, 1, 20, None),
        "prompt_logprobs": (0, 1, None, 3),
    },
    "template": {
        "add_generation_prompt": (False, True),
        "continue_final_message": (True, False, False),
        "chat_template_kwargs": ({}, None, {"a": 1}, {"add_generation_prompt": False}),
        "documents": ([], None, [{"title": "a", "text": "b"}]),
        "reasoning_effort": ("low", "none", None),
        "include_reasoning": (True, False),
        "return_prompt_text": (True, False, None),
        "parallel_tool_calls": (True, False, None),
        "tool_choice": ("none", None),
    },
}

GROUPS: dict[str, dict[str, dict[str, Values]]] = {
    "/v1/completions": {**_GROUPS, **_COMPLETION},
    "/v1/chat/completions": {**_GROUPS, **_CHAT},
}
NAMES = tuple(sorted(_GROUPS.keys() | _COMPLETION.keys() | _CHAT.keys()))

STREAM_OPTIONS: Values = (
    {"include_usage": True},
    None,
    {"include_usage": True, "continuous_usage_stats": True},
    {},
    {"continuous_usage_stats": True},
    {"include_usage": False, "continuous_usage_stats": True},
    {"include_usage": None},
)
INTERVALS: Values = (1, 2, 3, 100, None)

# What one side refuses, with a record that says so: it stands alone in its script.
REFUSED: tuple[dict[str, Any], ...] = (
    {"allowed_token_ids": [5, 73]},
    {"bad_words": ["a"]},
    {"logprob_token_ids": [5], "logprobs": 1},
    {"response_format": {"type": "json_object"}},
    {"structured_outputs": {"regex": "a+"}},
    {"repetition_detection": {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 2}},
    {"use_beam_search": True},
)
REFUSED_KEYS = frozenset(next(iter(body)) for body in REFUSED)
