"""The tool calls of earlier answers in a conversation, as a chat template reads them: arguments as data, not as text.

Mirrors what vllm/entrypoints/chat_utils.py does to them: the checks of the message's type, then ::_postprocess_messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.sampling import RequestRefused
from engine.server.errors import Refused, invalid_body

TYPE = "ChatCompletionMessageFunctionToolCallParam"  # upstream's errors name its type of a call


def read_calls(given: Any) -> list[dict[str, Any]]:
    """Calls with parsed arguments; none for null and for an empty list.

    Raises Refused and RequestRefused with upstream's params, which count the calls and not the messages.
    """
    if given is None:
        return []
    if not isinstance(given, Iterable):
        raise RequestRefused("tool_calls must be a list")
    return [_read(call, f"body.{index}.{TYPE}") for index, call in enumerate(given)]


def _read(call: Any, where: str) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise invalid_body(f"{where}: a tool call is an object", where)
    if _is_custom(call):
        raise Refused("a tool call of an assistant can only be of type function", "tool_calls")
    if not isinstance(call.get("id"), str):
        raise invalid_body(f"{where}: a tool call needs an id, which is a text", f"{where}.id")
    function = _function(call.get("function"), f"{where}.function")
    if call.get("type") != "function":
        raise invalid_body(f"{where}: the type of a tool call is function", f"{where}.type")
    parsed = function | {"arguments": _parsed(function["arguments"])}
    return {"id": call["id"], "function": parsed, "type": "function"}


def _function(given: Any, where: str) -> dict[str, Any]:
    """Upstream looks at the arguments first, and does not name them."""
    if not isinstance(given, Mapping) or not isinstance(given.get("arguments"), str):
        raise invalid_body(f"{where}: a tool call needs a function with arguments, which are a text", where)
    if not isinstance(given.get("name"), str):
        raise invalid_body(f"{where}: a function has a name, which is a text", f"{where}.name")
    return {"arguments": given["arguments"], "name": given["name"]}


def _is_custom(call: Mapping[str, Any]) -> bool:
    custom = call.get("custom")
    return (
        call.get("type") == "custom"
        and isinstance(call.get("id"), str)
        and isinstance(custom, Mapping)
        and all(isinstance(custom.get(name), str) for name in ("name", "input"))
    )


def _parsed(arguments: str) -> Any:
    """Arguments as data; none at all, and null, are an empty object."""
    if not arguments:
        return {}
    try:
        parsed = json.loads(arguments)
    except ValueError as error:
        raise RequestRefused(f"the arguments of a tool call are no JSON: {error}") from error
    except RecursionError as error:
        raise RequestRefused("the arguments of a tool call are nested too deeply") from error
    return {} if parsed is None else parsed
