"""When a request stops, and what of its tokens the prefix cache may know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.request import Request, Status
from engine.wire import RequestSpec
from tests.engine.scenes import Requests

EOS, STOP, WORD = 7, 8, 9


def request(prompt: int = 4, **changes: Any) -> Request:
    values: dict[str, Any] = {"max_tokens": 3, "eos_token_id": EOS, "stop_token_ids": [STOP]} | changes
    spec = Requests().make(prompt, values.pop("max_tokens"), **values)
    return Request(msgspec.convert(spec, RequestSpec), hash_block_size=4)


@pytest.mark.parametrize(
    ("tokens", "changes", "status", "reason"),
    [
        ([WORD], {}, Status.WAITING, None),
        ([EOS], {}, Status.FINISHED_STOPPED, None),
        ([STOP], {}, Status.FINISHED_STOPPED, STOP),
        ([WORD, WORD, WORD], {}, Status.FINISHED_LENGTH, None),
        ([WORD, WORD, EOS], {}, Status.FINISHED_STOPPED, None),
        ([EOS], {"ignore_eos": True}, Status.WAITING, None),
        ([EOS], {"ignore_eos": True, "stop_token_ids": [EOS]}, Status.FINISHED_STOPPED, EOS),
        ([EOS], {"stop_token_ids": [EOS]}, Status.FINISHED_STOPPED, None),
        ([EOS], {"eos_token_id": None}, Status.WAITING, None),
        ([EOS], {"min_tokens": 2}, Status.WAITING, None),
        ([WORD, EOS], {"min_tokens": 2}, Status.FINISHED_STOPPED, None),
    ],
)
def test_the_last_token_decides_whether_a_request_stops(
    tokens: list[int], changes: dict[str, Any], status: Status, reason: int | None
) -> None:
    subject = request(**changes)
    for token in tokens:
        subject.append(token)

    stopped = subject.check_stop(max_model_len=100)

    assert (subject.status, subject.stop_reason) == (status, reason)
    assert stopped is (status is not Status.WAITING)


@pytest.mark.parametrize(("limit", "stopped"), [(5, True), (6, False)])
def test_a_request_stops_when_prompt_and_output_reach_the_models_length(limit: int, stopped: bool) -> None:
    subject = request(prompt=4)
    subject.append(WORD)

    assert subject.check_stop(max_model_len=limit) is stopped


def test_min_tokens_holds_back_even_the_models_length() -> None:
    subject = request(prompt=4, min_tokens=2)
    subject.append(WORD)

    assert subject.check_stop(max_model_len=5) is False


def test_a_generated_token_that_fills_a_block_gives_it_a_key() -> None:
    subject = request(prompt=7)
    assert len(subject.block_hashes) == 1

    subject.append(WORD)

    twin = request(prompt=7)
    twin.append(WORD)
    assert len(subject.block_hashes) == 2
    assert subject.block_hashes == twin.block_hashes


def test_without_a_prefix_cache_nothing_is_hashed() -> None:
    spec = msgspec.convert(Requests().make(8, 1), RequestSpec)

    assert Request(spec, hash_block_size=None).block_hashes == []


@pytest.mark.parametrize(("prompt_logprobs", "reads"), [(None, True), (0, False), (3, False)])
def test_prompt_logprobs_keep_a_request_from_reading_the_cache(
    prompt_logprobs: int | None, reads: bool
) -> None:
    assert request(prompt_logprobs=prompt_logprobs).reads_cache is reads
