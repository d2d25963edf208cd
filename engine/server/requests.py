"""The bodies that clients send, as data: upstream's fields in upstream's order, with its types and defaults.

The order is part of the contract: of several wrong fields the first one is named in the error. What a type cannot
say is checked before the types are, as upstream does, so that a client sees the same `param`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, model_validator
from pydantic import Field as F

from engine.server.constraints import Body, RepetitionDetection, ResponseFormat, StructuredOutputs
from engine.server.errors import Refused

MAX_PROMPTS = 1024  # as VLLM_MAX_COMPLETION_PROMPTS of the mirrored version
Int64 = Annotated[int, F(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, F(ge=0)]
Truncation = Annotated[int, F(ge=-1, le=2**63 - 1)]
Interval = Annotated[int, F(ge=1)]
Xargs = dict[str, str | int | float | list[str | int | float]]


def _writable(text: str) -> str:
    """JSON can write half of a surrogate pair; UTF-8, which keys of the cache and answers are made of, cannot."""
    text.encode()
    return text


def _all_writable(texts: str | list[str] | None) -> str | list[str] | None:
    for text in texts if isinstance(texts, list) else (texts or "",):
        _writable(text)
    return texts


Writable = Annotated[str, AfterValidator(_writable)]
Stops = Annotated[str | list[str] | None, AfterValidator(_all_writable)]


def new_id() -> str:
    """An id for a request that brings none; an empty one that a client sends is an id."""
    return secrets.token_hex(8)


class StreamOptions(Body):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class FunctionDefinition(Body):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Body):
    type: Literal["function"] = "function"
    function: FunctionDefinition


class FunctionName(Body):
    name: str


class NamedTool(Body):
    function: FunctionName
    type: Literal["function"] = "function"


class CompletionBody(Body):
    """POST /v1/completions. Mirrors vllm/entrypoints/openai/completion/protocol.py::CompletionRequest."""

    model: str | None = None
    prompt: list[TokenId] | list[list[TokenId]] | str | list[str] | None = None
    echo: bool | None = False
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    max_tokens: int | None = 16
    n: int = 1
    presence_penalty: float | None = 0.0
    seed: Int64 | None = None
    stop: Stops = F(default_factory=list)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    suffix: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    use_beam_search: bool = False
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    length_penalty: float = 1.0
    stop_token_ids: list[int] | None = F(default_factory=list)
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    truncate_prompt_tokens: Truncation | None = None
    truncation_side: Literal["left", "right"] | None = None
    allowed_token_ids: list[int] | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    bad_words: list[str] = F(default_factory=list)
    prompt_embeds: str | list[str] | None = None
    add_special_tokens: bool = True
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    priority: Int64 = 0
    request_id: Writable = F(default_factory=new_id)
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    return_token_offsets: bool | None = False
    cache_salt: Writable | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    vllm_xargs: Xargs | None = None
    repetition_detection: RepetitionDetection | None = None
    thinking_token_budget: Any = None
    stream_interval: Interval | None = None

    @model_validator(mode="before")
    @classmethod
    def _before_types(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        # Upstream runs these in the reverse of the order in which it defines them.
        check_salt(data)
        _check_prompt(data)
        check_stream_options(data)
        check_logprob_ids(data, are_wanted=data.get("logprobs") is not None)
        check_counts(data, ("prompt_logprobs", "logprobs"))
        logprobs = data.get("logprobs")
        if logprobs is not None and logprobs < 0:
            raise Refused(f"logprobs must not be negative, got {logprobs}", "logprobs")
        check_response_format(data)
        check_thinking(data)
        return {**data, "max_tokens": 16} if data.get("max_tokens") is None else data


class ChatBody(Body):
    """POST /v1/chat/completions. Mirrors vllm/entrypoints/openai/chat_completion/protocol.py::ChatCompletionRequest."""

    messages: list[Any]
    model: str | None = None
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1
    presence_penalty: float | None = 0.0
    response_format: ResponseFormat | None = None
    seed: Int64 | None = None
    stop: Stops = F(default_factory=list)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = "none"
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    thinking_token_budget: Any = None
    include_reasoning: bool = True
    parallel_tool_calls: bool | None = True
    user: str | None = None
    use_beam_search: bool = False
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    length_penalty: float = 1.0
    stop_token_ids: list[int] | None = F(default_factory=list)
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    truncate_prompt_tokens: Truncation | None = None
    truncation_side: Literal["left", "right"] | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] = F(default_factory=list)
    echo: bool = False
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    documents: list[dict[str, str]] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    structured_outputs: StructuredOutputs | None = None
    priority: Int64 = 0
    request_id: Writable = F(default_factory=new_id)
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    return_token_offsets: bool | None = False
    return_prompt_text: bool | None = None
    return_assistant_tokens_mask: bool = False
    cache_salt: Writable | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    vllm_xargs: Xargs | None = None
    repetition_detection: RepetitionDetection | None = None
    stream_interval: Interval | None = None

    @model_validator(mode="before")
    @classmethod
    def _before_types(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        check_messages(data)
        check_salt(data)
        check_generation_prompt(data)
        data = _check_tools(data)
        check_logprob_ids(data, are_wanted=bool(data.get("logprobs")))
        check_counts(data, ("prompt_logprobs", "top_logprobs"))
        top = data.get("top_logprobs")
        if top is not None and top < -1:
            raise Refused(f"top_logprobs must be -1 or at least 0, got {top}", "top_logprobs")
        if top is not None and (top == -1 or top > 0) and not data.get("logprobs"):
            raise Refused("top_logprobs needs logprobs to be true", "top_logprobs")
        check_stream_options(data)
        check_response_format(data)
        check_thinking(data)
        check_calls(data)
        return data


class TokenizePromptBody(Body):
    """POST /tokenize with a prompt."""

    model: str | None = None
    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool | None = False


class TokenizeChatBody(Body):
    """POST /tokenize with messages."""

    model: str | None = None
    messages: list[Any]
    add_generation_prompt: bool = True
    return_token_strs: bool | None = False
    continue_final_message: bool = False
    add_special_tokens: bool = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[Tool] | None = None

    @model_validator(mode="before")
    @classmethod
    def _before_types(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            check_generation_prompt(data)
        return data


class DetokenizeBody(Body):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[Annotated[int, F(ge=0, le=2**63 - 1)]]


def check_messages(data: Mapping[str, Any]) -> None:
    """What upstream cannot walk through is refused before anything else; what is no list but can be is left to the types."""
    if not isinstance(data.get("messages", ()), Sequence | Mapping):
        raise Refused("messages must be a list")


def check_calls(data: Mapping[str, Any]) -> None:
    """Upstream makes a list of whatever stands for a message's tool calls, whoever says it; what they are is read later."""
    messages = data.get("messages")
    for message in messages if isinstance(messages, list) else ():
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        if calls is not None and not isinstance(calls, Sequence | Mapping):
            raise Refused("tool_calls must be a list")


def check_salt(data: Mapping[str, Any]) -> None:
    salt = data.get("cache_salt")
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise Refused("cache_salt must be a string that is not empty", "cache_salt")


def check_stream_options(data: Mapping[str, Any]) -> None:
    if data.get("stream_options") and not data.get("stream"):
        raise Refused("stream_options need stream to be true", "stream_options")


def check_generation_prompt(data: Mapping[str, Any]) -> None:
    if data.get("continue_final_message") and data.get("add_generation_prompt"):
        raise Refused("continue_final_message and add_generation_prompt exclude each other")


def check_response_format(data: Mapping[str, Any]) -> None:
    wanted = data.get("response_format")
    if (
        isinstance(wanted, Mapping)
        and wanted.get("type") == "json_schema"
        and wanted.get("json_schema") is None
    ):
        raise Refused("a response_format of type json_schema needs a json_schema", "response_format")


def check_thinking(data: Mapping[str, Any]) -> None:
    budget = data.get("thinking_token_budget")
    if budget is not None and (not isinstance(budget, int) or budget < -1):
        raise Refused("thinking_token_budget must be -1 or at least 0", "thinking_token_budget")


def check_logprob_ids(data: Mapping[str, Any], *, are_wanted: bool) -> None:
    if data.get("logprob_token_ids") and not are_wanted:
        raise Refused("logprob_token_ids needs logprobs", "logprob_token_ids")


def check_counts(data: Mapping[str, Any], names: tuple[str, str]) -> None:
    """Numbers of logprobs: numbers at all, and of the prompt only where nothing is streamed."""
    for name in names:
        value = data.get(name)
        if value is not None and not isinstance(value, int | float):
            raise Refused(f"{name} must be a whole number", name)
    wanted = data.get("prompt_logprobs")
    if wanted is None:
        return
    if data.get("stream") and (wanted > 0 or wanted == -1):
        raise Refused("prompt_logprobs cannot be streamed", "prompt_logprobs")
    if wanted < -1 or -1 < wanted < 0:
        raise Refused(
            f"prompt_logprobs must be at least 0, or -1 for the whole vocabulary, got {wanted}",
            "prompt_logprobs",
        )


def _check_prompt(data: Mapping[str, Any]) -> None:
    prompt, embeds = data.get("prompt"), data.get("prompt_embeds")
    if isinstance(prompt, list) and len(prompt) > MAX_PROMPTS and not all(isinstance(p, int) for p in prompt):
        raise Refused(f"at most {MAX_PROMPTS} prompts a request, got {len(prompt)}", "prompt")
    if prompt in (None, "") and embeds in (None, []):
        raise Refused("a prompt is needed, and it must not be empty", "prompt")


def _check_tools(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Tools without a parser: they may stand in the template, but no choice other than none can be honoured."""
    tools, choice = data.get("tools"), data.get("tool_choice")
    if tools == []:
        raise Refused("tools must not be an empty list; leave it out", "tools")
    if "tool_choice" not in data and tools:
        return {**data, "tool_choice": "auto"}
    if choice not in (None, "none") and tools is None:
        raise Refused("tool_choice needs tools", "tool_choice")
    if isinstance(choice, Mapping):
        _check_named_tool(choice, tools)
    elif choice not in (None, "none", "auto", "required"):
        raise Refused("tool_choice must be none, auto, required or a named tool", "tool_choice")
    return data


def _check_named_tool(choice: Mapping[str, Any], tools: Any) -> None:
    function = choice.get("function")
    if not isinstance(function, Mapping):
        raise Refused("tool_choice must have a function, an object with a name", "tool_choice.function")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise Refused("the function of tool_choice needs a name", "tool_choice.function.name")
    for tool in tools or ():
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping):
            raise Refused("every tool must have a function, an object with a name")
        if function.get("name") == name:
            return
    raise Refused(f"tool_choice names {name!r}, which is none of the tools", "tool_choice")
