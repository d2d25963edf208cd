"""An observation in a few words, for people who choose between outcomes; nothing is decided by it."""

from __future__ import annotations

from parity.observation import Answer, Observation, PlanOk, Schedule, Serve
from parity.scenario import Json

MAX_NAMED = 4  # exchanges that end alike and are still named one by one
MAX_CHARACTERS = 200


def summarise(observation: Observation) -> str:
    """`stuck: unanswered; process alive` of a served script, `stall` of a timeline, `ok` of a plan."""
    if isinstance(observation, Serve):
        return _clipped(_served(observation))
    if isinstance(observation, Schedule):
        return observation.end.kind
    return "ok" if isinstance(observation, PlanOk) else _clipped(observation.kind)


def ending_of(answer: Answer) -> str:
    """How one exchange ended: `200 length`, `500 InternalServerError`, `stream 200 abort`, `unanswered`."""
    if answer.ending != "answered":
        return answer.ending
    reasons = list(dict.fromkeys(_reasons(answer)))
    words = ["stream"] if answer.stream is not None else []
    words += ["-" if answer.status is None else str(answer.status), *reasons]
    return " ".join(words)


def _served(observation: Serve) -> str:
    alike: dict[str, list[str]] = {}
    for answer in observation.exchanges:
        alike.setdefault(ending_of(answer), []).append(answer.id)
    parts = [f"{_names(ids)}: {ending}" for ending, ids in alike.items()]
    if observation.ended is not None:
        ended = observation.ended
        state = f"exited {ended.code}" if ended.state == "exited" else "alive"
        left = ", processes of its left" if ended.orphans else ""
        parts.append(f"process {state}{left}")
    return "; ".join(parts)


def _names(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= MAX_NAMED else f"{len(ids)} exchanges"


def _reasons(answer: Answer) -> list[str]:
    """Finish reasons and error types, in the order in which they stand."""
    if answer.stream is not None:
        found = [_of(choice.finish, "finish_reason") for choice in answer.stream.choices]
        found += [_error(entry) for entry in answer.stream.rest]
    else:
        choices = answer.body.get("choices") if isinstance(answer.body, dict) else None
        found = [_of(choice, "finish_reason") for choice in choices] if isinstance(choices, list) else []
        found.append(_error(answer.body))
    return [reason for reason in found if reason is not None]


def _error(entry: Json) -> str | None:
    return _of(entry.get("error"), "type") if isinstance(entry, dict) else None


def _of(entry: Json, key: str) -> str | None:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else None


def _clipped(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
