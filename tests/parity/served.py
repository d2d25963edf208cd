"""Small served scripts and what came of them, in the forms that upstream 0.27.1 was seen to answer in."""

from __future__ import annotations

import json
from typing import Any

from parity.observation import After, Answer, Choice, Ended, Serve, Stream
from parity.scenario import (
    Action,
    Case,
    Exchange,
    Exit,
    Open,
    Send,
    ServerConfig,
    ServeScenario,
    Signal,
    Waiver,
)


def server_config(**changes: Any) -> ServerConfig:
    values: dict[str, Any] = {
        "model": "tiny-opt",
        "dtype": "float32",
        "block_size": 16,
        "num_blocks": 64,
        "max_model_len": "auto",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 2048,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
        "generation_config": None,
        "override_generation_config": None,
        "shutdown_timeout": 0,
    }
    return ServerConfig(**(values | changes))


CONFIG = server_config(num_blocks=8)


def exchange(name: str = "a", path: str = "/v1/completions", body: Any = None, **changes: Any) -> Exchange:
    content = None if body is None else json.dumps(body)
    values: dict[str, Any] = {"method": "POST", "headers": {}, "deadline": None, "leave_after": None}
    return Exchange(id=name, path=path, content=content, **{**values, **changes})


def send(name: str = "a", path: str = "/v1/completions", body: Any = None, **changes: Any) -> Send:
    return Send(exchange(name, path, body, **changes))


STUCK: tuple[Action, ...] = (Open(exchange("stuck")), Signal("TERM"), Exit(10.0))


def script(*actions: Action) -> ServeScenario:
    return ServeScenario("serving/miniature", "serve", CONFIG, list(actions) or [send()], False)


def case(*actions: Action, outcomes: int | None = None, waive: tuple[str, ...] = ()) -> Case:
    waivers = [Waiver(name, "because") for name in waive]
    return Case(script(*actions), "a miniature", [], waivers, outcomes, "parity/scenarios/miniature.yaml", 1)


def answer(body: Any = None, name: str = "a", **changes: Any) -> Answer:
    values: dict[str, Any] = {"ending": "answered", "status": 200, "headers": {}, "stream": None}
    return Answer(id=name, body=body, **{**values, **changes})


def lost(ending: Any, name: str = "a") -> Answer:
    return answer(None, name, ending=ending, status=None)


def serve(*exchanges: Answer, **changes: Any) -> Serve:
    values: dict[str, Any] = {
        "conditions": [],
        "health": [200],
        "preempted": False,
        "after": After(0, 0, False),
        "ended": None,
    }
    return Serve(exchanges=list(exchanges), **{**values, **changes})


def ended(state: Any = "exited", code: int | None = 0, orphans: int = 0) -> Ended:
    return Ended(state, code, orphans)


def stopped(one: Answer, **changes: Any) -> Serve:
    """What came of STUCK: the client's answer, and a process that ended unless said otherwise."""
    return serve(one, **{"after": None, "ended": ended(), **changes})


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def listed(*tokens: tuple[str, float, dict[str, float]]) -> dict[str, Any]:
    """A completion's logprobs from (token, its log probability, the other alternatives)."""
    return {
        "tokens": [token for token, _, _ in tokens],
        "token_logprobs": [value for _, value, _ in tokens],
        "top_logprobs": [{token: value, **others} for token, value, others in tokens],
        "text_offset": [len("".join(token for token, _, _ in tokens[:at])) for at in range(len(tokens))],
    }


def completion(*choices: dict[str, Any], prompt: int = 6, tokens: int = 3) -> dict[str, Any]:
    return {"object": "text_completion", "choices": list(choices), "usage": usage(prompt, tokens)}


def choice(logprobs: Any = None, text: str = "", reason: str = "length", **others: Any) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason, **others}


def chat_token(token: str, value: float, others: dict[str, float]) -> dict[str, Any]:
    top = [entry(name, number) for name, number in {token: value, **others}.items()]
    return {**entry(token, value), "top_logprobs": top}


def entry(token: str, value: float) -> dict[str, Any]:
    return {"token": token, "logprob": value, "bytes": list(token.encode())}


def streamed(*choices: Choice, rest: Any = None, usage: str = "none") -> Stream:
    return Stream(list(choices), ["[DONE]"] if rest is None else rest, usage)


def folded(
    index: int = 0, kinds: Any = ("tokens", "finish"), joined: Any = None, reason: str = "length"
) -> Choice:
    """A stream's choice: what its frames say together, and its finish."""
    said = {"index": index, "text": "> (", "finish_reason": reason} if joined is None else joined
    return Choice(index, list(kinds), said, {"index": index, "finish_reason": reason})
