"""Sizes that would hang a side or fill a machine's memory are refused before anything runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from parity.decode import decode
from parity.document import MAX_NAMED, Fault, nearest, parse
from parity.errors import ScenarioError
from parity.loader import load


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{model: tiny-opt, num_blocks: 2097153}", "at least 0 and at most 2097152"),
        ("{model: tiny-opt, num_blocks: 9000000000000000000}", "at most 2097152"),
        ("{model: tiny-opt, num_blocks: -1}", "at least 0"),
        ("{model: tiny-opt, kv_cache_memory_bytes: 9000000000000000000}", "at most 2097152 blocks"),
    ],
)
def test_a_pool_that_no_machine_holds_is_refused(config: str, says: str) -> None:
    text = f"title: t\nlevel: plan\nconfig: {config}\n"

    with pytest.raises(ScenarioError, match=says):
        load(text.encode(), "parity/scenarios/block-count/huge.yaml")


def test_the_largest_pool_is_not_refused() -> None:
    text = "title: t\nlevel: plan\nconfig: {model: tiny-opt, num_blocks: 2097152}\n"

    (case,) = load(text.encode(), "parity/scenarios/block-count/huge.yaml")

    assert case.scenario.config.num_blocks == 2**21


class Bounded(msgspec.Struct):
    at_least: Annotated[int, Meta(ge=2)] = 2
    more: Annotated[int, Meta(gt=2)] = 3
    at_most: Annotated[int, Meta(le=2)] = 2
    below: Annotated[float, Meta(lt=2)] = 1.0


@pytest.mark.parametrize("name", ["at_least: 1", "more: 2", "at_most: 3", "below: 2.0"])
def test_every_kind_of_bound_holds(name: str) -> None:
    with pytest.raises(Fault, match=name.split(":")[0].split("_")[-1]):
        decode(parse(name.encode()), Bounded)


@pytest.mark.parametrize("name", ["at_least: 2", "more: 3", "at_most: 2", "below: 1.9"])
def test_a_value_at_its_bound_passes(name: str) -> None:
    assert isinstance(decode(parse(name.encode()), Bounded), Bounded)


def test_a_hint_names_what_is_near_or_as_many_as_a_line_has_room_for() -> None:
    names = [f"caching/{index}" for index in range(MAX_NAMED + 3)]

    assert nearest("cachin/7", names) == "did you mean 'caching/7'?"
    assert nearest("zzz", names) == f"one of: {', '.join(names[:-3])} and 3 more"
    assert nearest("zzz", names[:MAX_NAMED]) == f"one of: {', '.join(names[:MAX_NAMED])}"
