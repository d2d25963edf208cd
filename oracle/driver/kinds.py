"""The one table from upstream's wording to the kinds of docs/protocol.md.

Kinds are compared, wording never is: a message that upstream rewords turns up as `unrecognised: …`, so
that it is read by a person before it is taken for a known one.
"""

from __future__ import annotations

import re

ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("max-model-len-above-model", re.compile(r"User-specified max_model_len \(\d+\) is greater than")),
    (
        "batched-tokens-below-max-model-len",
        re.compile(r"max_num_batched_tokens \(\d+\) is smaller than max_"),
    ),
    (
        "batched-tokens-below-max-num-seqs",
        re.compile(r"max_num_batched_tokens \(\d+\) must be .* max_num_seqs"),
    ),
    (
        "long-prefill-threshold-above-max-model-len",
        re.compile(r"long_prefill_token_threshold \(\d+\) cannot be greater than the max_model_len"),
    ),
    ("no-kv-cache-memory", re.compile(r"No available memory for the cache blocks")),
    ("kv-cache-too-small", re.compile(r"To serve at least one request with the model's max seq len")),
    ("cannot-auto-fit", re.compile(r"Cannot auto-fit max_model_len")),
)

WARNINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "batched-tokens-exceed-seqs-times-len",
        re.compile(r"max_num_batched_tokens \(\d+\) exceeds max_num_seqs \* max_model_len"),
    ),
)

# Warnings that speak of the machine and not of the configuration; they are no part of an observation.
ABOUT_THE_MACHINE: tuple[re.Pattern[str], ...] = (
    re.compile(r"CPU backend prefers block_size is multiples of 32"),
    re.compile(r"Reset SSM cache type to float32 for AMX"),
)

# A fact of how upstream was started, where a class was asked for in the place of its scheduler.
ABOUT_A_REPLACEMENT = re.compile(
    r"^Using custom scheduler class .+\. This scheduler interface is not public and compatibility may not be"
)

_ESTIMATE = re.compile(r"the estimated maximum model length is (\d+)")


def error_kind(error: Exception) -> str:
    """The kind of what upstream raised, or `unrecognised: ExceptionClass: first line of its message`."""
    text = str(error)
    for kind, pattern in ERRORS:
        if pattern.search(text):
            return kind
    inner = _validated(error)
    return f"unrecognised: {type(inner).__name__}: {_first_line(str(inner))}"


def estimated_max_model_len(error: Exception) -> int | None:
    """The length in tokens that a `kv-cache-too-small` message proposes; None where it names none."""
    found = _ESTIMATE.search(str(error))
    return None if found is None else int(found.group(1))


def warning_kind(message: str, *, replaced: bool = False) -> str | None:
    """The kind of a warning, None for one that is no observation, or `unrecognised: first line`.

    `replaced`: a class was asked for in the place of upstream's scheduler, of which upstream warns.
    """
    for kind, pattern in WARNINGS:
        if pattern.search(message):
            return kind
    dropped = (*ABOUT_THE_MACHINE, ABOUT_A_REPLACEMENT) if replaced else ABOUT_THE_MACHINE
    if any(pattern.search(message) for pattern in dropped):
        return None
    return f"unrecognised: {_first_line(message)}"


def _validated(error: Exception) -> Exception:
    """What a validator raised, out of pydantic's wrapper (whose own first line only counts errors)."""
    details = getattr(error, "errors", None)
    if not callable(details):
        return error
    for detail in details():
        inner = detail.get("ctx", {}).get("error")
        if isinstance(inner, Exception):
            return inner
    return error


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
