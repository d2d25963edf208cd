"""The table from upstream's wording to kinds. The messages are upstream 0.27.1's own, shortened at the end."""

from __future__ import annotations

from typing import Any

import pytest

from oracle.driver.kinds import error_kind, estimated_max_model_len, warning_kind

TOO_SMALL = (
    "To serve at least one request with the model's max seq len (65), (0.01 GiB KV cache is needed, which "
    "is larger than the available KV cache memory (0.0 GiB). Based on the available memory, the estimated "
    "maximum model length is 64. Try increasing `gpu_memory_utilization`"
)


class Wrapped(Exception):
    """The shape of a validator's exception: its own first line counts, its details hold the cause."""

    def __init__(self, message: str, cause: Exception | None) -> None:
        super().__init__(message)
        self.cause = cause

    def errors(self) -> list[dict[str, Any]]:
        return [{"type": "value_error"}] if self.cause is None else [{"ctx": {"error": self.cause}}]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "1 validation error for ModelConfig\n  Value error, User-specified max_model_len (2049) is greater "
            "than the derived max_model_len (max_position_embeddings=2048",
            "max-model-len-above-model",
        ),
        (
            "max_num_batched_tokens (1024) is smaller than max_model_len (2048). This effectively limits",
            "batched-tokens-below-max-model-len",
        ),
        (
            "max_num_batched_tokens (8) must be greater than or equal to max_num_seqs (16).",
            "batched-tokens-below-max-num-seqs",
        ),
        (
            "long_prefill_token_threshold (65) cannot be greater than the max_model_len (64).",
            "long-prefill-threshold-above-max-model-len",
        ),
        ("No available memory for the cache blocks. Try increasing", "no-kv-cache-memory"),
        (TOO_SMALL, "kv-cache-too-small"),
        ("Cannot auto-fit max_model_len: not enough GPU memory available", "cannot-auto-fit"),
    ],
)
def test_a_known_refusal_has_its_kind(message: str, kind: str) -> None:
    assert error_kind(ValueError(message)) == kind


def test_an_unknown_refusal_is_shown_by_class_and_first_line() -> None:
    assert (
        error_kind(RuntimeError("the moon is full\nand more"))
        == "unrecognised: RuntimeError: the moon is full"
    )


def test_a_wrapped_refusal_is_shown_by_its_cause() -> None:
    wrapped = Wrapped("1 validation error for CacheConfig", ValueError("the moon is full"))

    assert error_kind(wrapped) == "unrecognised: ValueError: the moon is full"


def test_a_wrapper_without_a_cause_is_shown_itself() -> None:
    assert error_kind(Wrapped("1 validation error", None)) == "unrecognised: Wrapped: 1 validation error"


def test_the_estimate_is_read_where_there_is_one() -> None:
    assert estimated_max_model_len(ValueError(TOO_SMALL)) == 64
    assert estimated_max_model_len(ValueError(TOO_SMALL.replace("estimated", "supposed"))) is None


def test_a_known_warning_has_its_kind() -> None:
    message = "max_num_batched_tokens (200) exceeds max_num_seqs * max_model_len (128). This may lead to"

    assert warning_kind(message) == "batched-tokens-exceed-seqs-times-len"


@pytest.mark.parametrize(
    "message",
    [
        "CPU backend prefers block_size is multiples of 32, otherwise the performance is not optimized.",
        "Reset SSM cache type to float32 for AMX mamba attention.",
    ],
)
def test_a_warning_about_the_machine_is_dropped(message: str) -> None:
    assert warning_kind(message) is None


CUSTOM = (
    "Using custom scheduler class pkg.Class. This scheduler interface is not public and compatibility may not be "
    "maintained. If you have subclassed Scheduler instead of AsyncScheduler, you will see degraded performance"
)


def test_the_warning_about_a_class_is_dropped_where_one_was_asked_for_and_nowhere_else() -> None:
    assert warning_kind(CUSTOM, replaced=True) is None
    assert warning_kind(CUSTOM) == f"unrecognised: {CUSTOM}"


@pytest.mark.parametrize("message", [f"Mind: {CUSTOM}", "Using custom scheduler class pkg.Class is slow"])
def test_another_warning_about_a_class_is_an_observation(message: str) -> None:
    assert warning_kind(message, replaced=True) == f"unrecognised: {message}"


def test_an_unknown_warning_is_shown_by_its_first_line() -> None:
    assert warning_kind("the moon is full\nand more") == "unrecognised: the moon is full"
