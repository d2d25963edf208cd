"""The messages of a chat: what upstream accepts of them, made into what a chat template reads.

Content given in parts is text only here; parts are joined by line breaks, as upstream does for templates that
take strings. The params of refusals are upstream's, which are the names of its message types.
Mirrors vllm/entrypoints/chat_utils.py::parse_chat_messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.sampling import RequestRefused
from engine.server.errors import invalid_body
from engine.server.requests import ChatBody, TokenizeChatBody
from engine.server.tool_calls import read_calls

VARIANT = (
    "ChatCompletionDeveloperMessageParam"  # the first of upstream's message types, which its errors name
)
SYSTEM = ("system", "developer")
TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "thinking")
# What templates are called with; a client may not replace it with variables of its own. Upstream passes over most of
# them and fails on those of CLASHING, unless they are null, and on an `return_assistant_tokens_mask` that is true.
CLASHING = ("conversation", "messages", "self")
RESERVED = frozenset(
    {
        *CLASHING,
        "add_generation_prompt",
        "continue_final_message",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
    }
)


def normalised(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Messages whose content is a string.

    Raises Refused for what is no message and RequestRefused for content that a text model cannot read.
    """
    if not messages:
        raise RequestRefused("messages must not be empty")
    return [
        _normalised(message, f"body.messages.{index}.{VARIANT}") for index, message in enumerate(messages)
    ]


def are_messages(messages: Sequence[Any]) -> bool:
    """Whether each is a message, whatever a text model can make of its content."""
    return all(isinstance(message, Mapping) and _is_message(message) for message in messages)


def for_template(turns: Sequence[dict[str, Any]], *, knows_developer: bool) -> list[dict[str, Any]]:
    """Messages as the template reads them: to one that has no developer such a message is the system's.

    All that the system says is one message then, the first, since templates want it there.
    Mirrors vllm/renderers/hf.py::safe_apply_chat_template.
    """
    if knows_developer or not any(turn["role"] == "developer" for turn in turns):
        return list(turns)
    of_system = [turn for turn in turns if turn["role"] in SYSTEM]
    if [turn["role"] in SYSTEM for turn in turns] == [True] + [False] * (len(turns) - 1):
        first = {name: value for name, value in of_system[0].items() if name != "tools"}
        return [first | {"role": "system"}, *turns[1:]]
    said = "\n\n".join(turn["content"] for turn in of_system if turn["content"])
    others = [turn for turn in turns if turn["role"] not in SYSTEM]
    return [{"role": "system", "content": said}, *others]


def template_variables(body: ChatBody | TokenizeChatBody) -> dict[str, Any]:
    """The variables that a body gives to the chat template. A template of the client's own is refused."""
    given = dict(body.chat_template_kwargs or {})
    if given.pop("chat_template", None) is not None or body.chat_template is not None:
        raise RequestRefused("a chat template that comes with a request is not trusted")
    taken = [name for name in CLASHING if given.get(name) is not None]
    if taken or given.get("return_assistant_tokens_mask"):
        name = taken[0] if taken else "return_assistant_tokens_mask"
        raise RequestRefused(f"chat_template_kwargs cannot have {name}")
    variables = {name: value for name, value in given.items() if name not in RESERVED}
    if body.tools:
        variables["tools"] = [tool.model_dump(exclude_none=True) for tool in body.tools]
    if isinstance(body, ChatBody):
        if body.documents is not None:
            variables["documents"] = body.documents
        if body.reasoning_effort is not None:
            variables["reasoning_effort"] = body.reasoning_effort
            variables.setdefault("enable_thinking", body.reasoning_effort != "none")
    return variables


def refuse_tool_choice(body: ChatBody) -> None:
    """Without a tool parser no call could be read from the output. Mirrors OnlineRenderer.render_chat."""
    if body.tool_choice not in (None, "none"):
        raise RequestRefused("tool_choice can only be none: this server has no tool parser")


def _normalised(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise invalid_body(f"{where}: a message is an object", where)
    if not _is_message(message):
        at_fault = f"{where}.{_at_fault(message)}"
        raise invalid_body(f"{at_fault}: missing, or not of the type that it has in a message", at_fault)
    role, content = message["role"], message.get("content")
    text = "\n".join(map(_part, content)) if isinstance(content, list) else content or ""
    return {"role": role, "content": text, **_further(message, role)}


def _is_message(message: Mapping[str, Any]) -> bool:
    return _is_of_role(message) or _is_of_any_role(message)


def _is_of_role(message: Mapping[str, Any]) -> bool:
    """Whether this is a message as its role has it; what else stands in it does not matter then."""
    content, is_named = message.get("content"), isinstance(message.get("name"), str)
    has_content = isinstance(content, str | list)
    match message.get("role"):
        case "user" | "system" | "developer":
            return has_content and (is_named or "name" not in message)
        case "assistant":
            return (has_content or content is None) and (is_named or "name" not in message)
        case "tool":
            return has_content and isinstance(message.get("tool_call_id"), str)
        case "function":
            return "content" in message and (content is None or isinstance(content, str)) and is_named
    return False


def _is_of_any_role(message: Mapping[str, Any]) -> bool:
    """Whether this is a message of a role that need not be known. Mirrors ::CustomChatCompletionMessageParam."""
    reasoning = message.get("reasoning")
    texts = (
        message.get("reasoning_content") if reasoning is None else reasoning,
        message.get("tool_call_id"),
        message.get("task"),
    )
    lists = (message.get("tool_calls"), message.get("tools"))
    return (
        isinstance(message.get("role"), str)
        and isinstance(message.get("content", ""), str | list)
        and isinstance(message.get("name", ""), str)
        and all(text is None or isinstance(text, str) for text in texts)
        and all(items is None or _are_objects(items) for items in lists)
    )


def _are_objects(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, Mapping) for item in items)


def _at_fault(message: Mapping[str, Any]) -> str:
    """What upstream names of a message that is of no type: the first that is wrong for a developer's, its first type."""
    if not isinstance(message.get("content"), str | list):
        return "content"
    return "role" if message.get("role") != "developer" else "name"


def _further(message: Mapping[str, Any], role: str) -> dict[str, Any]:
    """What a template may read besides role and content. Mirrors ::_parse_chat_message_content."""
    kept = {name: message[name] for name in ("name", "task") if isinstance(message.get(name), str)}
    if role == "assistant":
        calls = read_calls(message.get("tool_calls"))
        if calls:
            kept["tool_calls"] = calls
        if message.get("reasoning") is not None:
            kept["reasoning"] = kept["reasoning_content"] = message["reasoning"]
    elif role == "tool" and "tool_call_id" in message:
        kept["tool_call_id"] = message["tool_call_id"]
    elif role == "developer":
        kept["tools"] = message.get("tools")
    return kept


def _part(part: Any) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise RequestRefused("a part of a message's content is an object with a type")
    if kind not in TEXT_PARTS:
        raise RequestRefused(f"this model reads text only, not {kind}")
    text = part.get("text" if kind.endswith("text") else kind)
    if not isinstance(text, str):
        raise RequestRefused(f"a part of type {kind} needs its text")
    return text
