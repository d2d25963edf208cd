"""What a scenario needs is told from the scenario, each need from one that has it and not from its neighbour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity.errors import ScenarioError
from parity.loader import load_file
from parity.observation import Schedule
from parity.scenario import Case
from parity.subjects.capabilities import CAPABILITIES, OF_LEVELS, missing, needs
from tests.parity.subjects.kit import timelines

ALWAYS = ("forced-tokens", "step-trace")


def load(root: Path, text: str) -> Case:
    folder = root / "parity" / "scenarios" / "caching"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.yaml").write_text(f"title: a title\n{text}\n")
    (case,) = load_file(folder / "mine.yaml", root)
    return case


def timeline(config: str = "", requests: str = "{id: a, prompt: 8, max_tokens: 4}", more: str = "") -> str:
    whole = f"model: tiny-opt, num_blocks: 9, max_model_len: 64{', ' if config else ''}{config}"
    return f"level: schedule\nconfig: {{{whole}}}\nrequests: [{requests}]\n{more}"


TWO = "{id: a, prompt: 40, max_tokens: 2}, {id: b, prompt: %s, max_tokens: 2}"
TIMELINES: list[tuple[str, tuple[str, ...]]] = [
    (timeline(), ()),
    (timeline("scheduling_policy: priority"), ("priority",)),
    (timeline("long_prefill_token_threshold: 4"), ("chunked-prefill",)),
    (timeline("max_num_batched_tokens: 16", "{id: a, prompt: 16, max_tokens: 2}"), ()),
    (timeline("max_num_batched_tokens: 16", "{id: a, prompt: 17, max_tokens: 2}"), ("chunked-prefill",)),
    (timeline("max_num_batched_tokens: 60", TWO % 21), ("chunked-prefill",)),
    (timeline("max_num_batched_tokens: 64, enable_chunked_prefill: false", TWO % 40), ()),
    (timeline(requests=TWO % 40), ()),
    (timeline(requests=TWO % "[{of: a, take: 16}, {new: 24}]"), ("prefix-caching",)),
    (timeline(requests=TWO % "[{of: a, take: 15}, {new: 25}]"), ()),
    (timeline("enable_prefix_caching: false", TWO % "[{of: a}]"), ()),
    (timeline("block_size: 32", TWO % "[{of: a, take: 31}, {new: 9}]"), ()),
    (timeline(more="aborts: [{id: a, at: 1}]"), ("aborts",)),
    (timeline(more="aborts: [{id: a, at: 1, when: before_update}]"), ("late-aborts",)),
    (timeline(more="resets: [{at: 1}]"), ("resets",)),
    (timeline(requests="{id: a, prompt: 8, max_tokens: 4, cache_salt: s}"), ("cache-salt",)),
    (timeline(requests="{id: a, prompt: 8, max_tokens: 4, prompt_logprobs: 1}"), ("prompt-logprobs",)),
    (timeline(requests="{id: a, prompt: 8, max_tokens: 4, min_tokens: 2}"), ("min-tokens",)),
    (timeline(requests="{id: a, prompt: 8, output: [7, 8], stop_token_ids: [8], max_tokens: 4}"), ("stop-tokens",)),
    (timeline(requests="{id: a, prompt: 8, output: [7, 8], stop_token_ids: [9], max_tokens: 4}"), ()),
    (timeline(requests="{id: a, prompt: 8, output: [7, 2], eos_token_id: 2, ignore_eos: false, max_tokens: 4}"), ("stop-tokens",)),
    (timeline(requests="{id: a, prompt: 8, output: [7, 2], eos_token_id: 2, ignore_eos: true, max_tokens: 4}"), ()),
    (timeline(more="needs: [priority, resets]"), ("priority", "resets")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), TIMELINES)
def test_a_timeline_needs_what_it_asks_for(text: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    assert set(needs(load(tmp_path, text))) == {*ALWAYS, *wanted}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ("num_blocks: 9, max_model_len: 64", set()),
        ("max_model_len: 64", {"memory-budget"}),
        ("num_blocks: 9", {"auto-fit"}),
    ],
)
def test_a_plan_needs_what_sizes_it(config: str, wanted: set[str], tmp_path: Path) -> None:
    case = load(tmp_path, f"level: plan\nconfig: {{model: tiny-opt, {config}}}")

    assert set(missing(case, ())) == wanted
    assert missing(case, tuple(CAPABILITIES)) == ()


SEND = "{send: {id: a, path: /v1/completions, body: {model: tiny-opt, prompt: [5]}}}"


def served(config: str = "", script: str = SEND) -> str:
    return f"level: serve\nconfig: {{model: tiny-opt, num_blocks: 9{config}}}\nscript: [{script}]"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (served(), {"start-flags", "float32-weights"}),
        (served(", dtype: bfloat16"), {"start-flags"}),
        (served(", generation_config: {max_new_tokens: 3}"), {"generation-config"}),
        (served(", override_generation_config: {max_new_tokens: 3}"), {"generation-config"}),
        (served(script=f"{SEND}, {{signal: TERM}}, {{exit: {{within: 5}}}}"), {"signals", "metrics"}),
    ],
)
def test_a_script_needs_what_it_asks_for(text: str, wanted: set[str], tmp_path: Path) -> None:
    found = set(needs(load(tmp_path, text)))

    assert found == (wanted if "start-flags" in wanted else {"start-flags", "float32-weights", *wanted})
    assert found <= set(OF_LEVELS["serve"])


def test_what_is_missing_is_told_in_one_order(tmp_path: Path) -> None:
    case = load(tmp_path, timeline("scheduling_policy: priority", more="resets: [{at: 1}]"))

    assert missing(case, ("priority",)) == (*ALWAYS, "resets")
    assert list(needs(case)) == [name for name in CAPABILITIES if name in needs(case)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("needs: [reset]", "'reset' is no capability of level schedule"),
        ("needs: [metrics]", "'metrics' is no capability of level schedule"),
        ("needs: resets", "needs"),
        ('since: "1"', "since: '1' does not fit"),
        ("since: next", "since: 'next' does not fit"),
        ("since: 0.1", "since"),
    ],
)
def test_a_need_or_a_version_that_is_none_is_a_mistake_in_the_file(
    line: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=said):
        load(tmp_path, timeline(more=line))


def test_every_capability_is_of_some_level_and_every_need_of_the_suite_of_its_own(suite: list[Case]) -> None:
    assert {name for names in OF_LEVELS.values() for name in names} == set(CAPABILITIES)
    assert set(OF_LEVELS["plan"]) < set(OF_LEVELS["schedule"])
    assert set(OF_LEVELS["serve"]).isdisjoint(OF_LEVELS["schedule"])

    asked = set()
    for case in suite:
        assert set(needs(case)) <= set(OF_LEVELS[case.scenario.level]), case.id
        asked |= {*needs(case)}
    assert asked >= set(CAPABILITIES), "a capability that nothing in the suite asks for"


def is_split(case: Case, played: Schedule) -> bool:
    """Whether some step computes a part of a prompt only."""
    assert case.scenario.level == "schedule"
    assert case.scenario.timeline is not None
    prompts = {request.id: len(request.prompt) for request in case.scenario.timeline.requests}
    computed: dict[str, int] = {}
    for step in played.steps:
        cached = dict(step.cached)
        for name, tokens in step.scheduled:
            if name in (*step.new, *step.resumed):
                computed[name] = cached.get(name, 0)
            computed[name] += tokens
            if computed[name] < prompts[name]:
                return True
    return False


SHOWN: dict[str, Any] = {
    "prefix-caching": lambda _, played: any(tokens for step in played.steps for _, tokens in step.cached),
    "chunked-prefill": is_split,
    "stop-tokens": lambda _, played: any(end[1] == "stop" for step in played.steps for end in step.finished),
    "aborts": lambda _, played: any(step.aborted for step in played.steps),
    "late-aborts": lambda _, played: any(step.aborted_late for step in played.steps),
    "resets": lambda _, played: any(step.reset for step in played.steps),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_shows_when_it_is_played_is_among_the_needs(name: str, suite: list[Case]) -> None:
    """Whoever cannot do it would be told to be at fault; a scenario that follows from no rule says it with `needs`."""
    shown = [case for case, played in timelines(suite) if SHOWN[name](case, played)]

    assert shown
    assert [case.id for case in shown if name not in needs(case)] == []
