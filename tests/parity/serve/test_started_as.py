"""What a server says of itself against what it was asked to be; what it does not say, or in another form, says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from parity.serve.metrics import cache_config
from parity.serve.started_as import of_cache, of_models
from tests.parity.served import server_config

CONFIG = server_config(block_size=16, num_blocks=4, max_model_len=64)


def card(**more: Any) -> dict[str, Any]:
    return {"data": [{"id": "tiny-opt", **more}]}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (card(max_model_len=64), []),
        (card(max_model_len=65), ["max_model_len = 65 where 64 was asked for"]),
        (card(max_model_len="65"), []),
        (card(), []),
        ({"data": [{"id": "b"}, {"id": "a"}]}, ["model = a and b where tiny-opt was asked for"]),
        ({"data": [{"id": 5}, "x"]}, []),
        ({"data": {}}, []),
        ([], []),
        (None, []),
    ],
)
def test_of_the_models_that_it_lists(listed: Any, said: list[str]) -> None:
    assert [str(item) for item in of_models(listed, CONFIG)] == said


def test_a_length_that_is_fitted_can_be_any() -> None:
    assert list(of_models(card(max_model_len=48), server_config(max_model_len="auto"))) == []


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ('block_size="16",num_gpu_blocks="4",enable_prefix_caching="True"', []),
        ('block_size="16",num_gpu_blocks="None",enable_prefix_caching="true"', []),
        ('num_gpu_blocks="5"', ["num_blocks = 5 where 4 was asked for"]),
        ('enable_prefix_caching="False"', ["enable_prefix_caching = False where True was asked for"]),
        ('block_size="32",engine="0"', ["block_size = 32 where 16 was asked for"]),
        ("", []),
    ],
)
def test_of_its_cache(labels: str, said: list[str]) -> None:
    text = f"# HELP x y\nother 1.0\nvllm:cache_config_info{{{labels}}} 1.0\n"

    assert [str(item) for item in of_cache(cache_config(text), CONFIG)] == said


@pytest.mark.parametrize("text", ["", "other 1.0\n", "no sample at all, sorry\n"])
def test_metrics_that_do_not_speak_of_the_cache_say_nothing(text: str) -> None:
    assert cache_config(text) == {}
