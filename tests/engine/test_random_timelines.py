"""Random timelines: the invariants hold after every step, and once everything has ended all blocks are free."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.scenes import Requests, config, play

BLOCK = 4


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    seqs = draw(st.integers(1, 4))
    return config(
        block_size=BLOCK,
        num_blocks=draw(st.integers(2, 12)),
        max_num_seqs=seqs,
        max_num_batched_tokens=draw(st.integers(seqs, 24)),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 3, 7])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.0, 0.2, 0.5])),
        enable_prefix_caching=draw(st.booleans()),
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority"])),
    )


@st.composite
def timelines(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """A configuration, requests over two tokens (so that prefixes meet), and the aborts and resets.

    Every request is aborted in step 60 at the latest, so that a stalled one gives its blocks back as well.
    """
    chosen = draw(configs())
    longest = (chosen["num_blocks"] - 1) * BLOCK
    make = Requests().make
    requests = []
    for number in range(draw(st.integers(1, 5))):
        max_tokens = draw(st.integers(1, 12))
        requests.append(
            make(
                draw(st.lists(st.integers(1, 2), min_size=1, max_size=longest)),
                max_tokens,
                at=draw(st.integers(0, 10)),
                arrival=draw(st.integers(0, 5)),
                output=draw(st.lists(st.integers(1, 3), min_size=max_tokens, max_size=max_tokens)),
                priority=draw(st.integers(-1, 1)),
                stop_token_ids=draw(st.sampled_from([[], [], [3]])),
                cache_salt=draw(st.sampled_from([None, None, "salt"])),
                prompt_logprobs=draw(st.sampled_from([None, None, 0])),
                id=f"r{number}",
            )
        )
    moments = st.sampled_from(["before_schedule", "before_update"])
    aborts = [
        {"id": request["id"], "at": draw(st.integers(0, 60)), "when": draw(moments)}
        for request in requests
        if draw(st.booleans())
    ]
    aborts += [{"id": request["id"], "at": 60, "when": "before_update"} for request in requests]
    resets = draw(
        st.lists(st.fixed_dictionaries({"at": st.integers(0, 30), "running": st.booleans()}), max_size=2)
    )
    return chosen, requests, {"aborts": aborts, "resets": resets}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(timelines())
def test_a_random_timeline_keeps_the_invariants_and_gives_every_block_back(
    timeline: tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]],
) -> None:
    chosen, requests, events = timeline

    actual = play(chosen, requests, **events)

    assert (actual["end"]["kind"], actual["end"]["error"]) == ("done", None)
    assert actual["steps"][-1]["free_after"] == chosen["num_blocks"] - 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(timelines())
def test_a_step_never_exceeds_its_limits_nor_shares_a_block_without_a_cache(
    timeline: tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]],
) -> None:
    chosen, requests, events = timeline

    for step in play(chosen, requests, **events)["steps"]:
        assert sum(count for _, count in step["scheduled"]) <= chosen["max_num_batched_tokens"]
        assert len(step["running"]) <= chosen["max_num_seqs"]
        handed_out = [block for _, table in step["blocks"] for block in table]
        distinct = set(handed_out)
        assert len(distinct) + step["free"] + 1 == chosen["num_blocks"]
        assert 0 not in distinct
        if not chosen["enable_prefix_caching"]:
            assert len(distinct) == len(handed_out)
