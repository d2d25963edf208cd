"""Facts about the committed suite: its size, its reports, its ids, and what it costs to load."""

from __future__ import annotations

import re
import time
from itertools import combinations
from pathlib import Path

import pytest

from parity.levels import FAMILIES
from parity.scenario import Case, Scenario, ServeScenario
from parity.suite import load_suite, scenario_files

REPORT = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)\Z")

# The public reports, by the number of the behaviour that they describe; without a repository: vllm-project/vllm.
REPORTS: dict[int, list[str]] = {
    1: ["47272"],
    2: ["48724"],
    3: ["29233"],
    4: ["16118"],
    5: ["54662", "50456"],
    6: ["vllm-project/vllm-metal 526"],
    7: ["41069"],
    8: ["33499"],
    9: ["25350"],
    10: ["52530"],
    11: ["31731"],
    12: ["37307", "25538"],
    13: ["LMCache/LMCache 1969"],
    14: ["53130"],
    15: ["vllm-project/vllm-ascend 16315"],
    16: ["RBLN-SW/vllm-rbln 179"],
    17: ["GeeeekExplorer/nano-vllm 271"],
    18: ["27922"],
    19: ["23683"],
    20: ["40004", "41951"],
    21: ["39608"],
    22: ["17999"],
    23: ["17251"],
    24: ["ovg-project/kvcached 362"],
    25: ["52076"],
    26: ["42948"],
    27: ["29987"],
    28: ["EricLBuehler/mistral.rs 2024"],
    29: ["52530", "47272"],
    30: ["42474", "33418"],
    31: ["19862", "9336"],
    32: ["5299"],
    33: ["35231", "7746"],
    34: ["4529"],
    35: ["9028"],
    36: ["11898"],
    37: ["52852"],
    38: ["36666", "50529", "57082"],
    39: ["17972", "45414"],
    40: ["55483", "4365"],
}


def timelines(suite: list[Case]) -> list[Case]:
    """The cases that drivers play: all but those of level serve."""
    return [case for case in suite if isinstance(case.scenario, Scenario)]


def served(suite: list[Case]) -> dict[str, ServeScenario]:
    return {case.id: case.scenario for case in suite if isinstance(case.scenario, ServeScenario)}


def report(name: str) -> str:
    return name if " " in name else f"vllm-project/vllm {name}"


def test_there_are_at_least_250_scenarios_with_ids_of_their_own(suite: list[Case]) -> None:
    ids = [case.id for case in suite]

    assert len(ids) >= 250
    assert len(set(ids)) == len(ids)


def test_every_family_is_one_that_records_know(suite: list[Case]) -> None:
    assert {case.family for case in suite} <= set(FAMILIES)


def test_every_citation_is_a_public_report(suite: list[Case]) -> None:
    assert [link for case in suite for link in case.why if not REPORT.match(link)] == []


@pytest.mark.parametrize("item", range(1, 41))
def test_every_report_is_cited_by_a_scenario(suite: list[Case], item: int) -> None:
    cited = {
        f"{match[1]} {match[2]}"
        for case in suite
        for link in case.why
        if (match := REPORT.match(link)) is not None
    }

    assert {report(name) for name in REPORTS[item]} <= cited


def test_the_founding_case_is_there_as_it_was_reported(suite: list[Case]) -> None:
    by_id = {case.id: case.scenario for case in suite if isinstance(case.scenario, Scenario)}

    for name, level, blocks in (
        ("auto-fit/null-block", "plan", 4),
        ("auto-fit/control", "plan", 64),
        ("preemption/sole-request-outgrows-pool", "schedule", 4),
        ("preemption/sole-request-fits", "schedule", 64),
    ):
        scenario = by_id[name]
        config = scenario.config
        assert (scenario.level, config.model.name, config.dtype) == (level, "opt-125m", "float32")
        assert (config.block_size, config.num_blocks, config.max_model_len) == (16, blocks, "auto")
    for name, prompt, tokens in (("sole-request-outgrows-pool", 8, 56), ("sole-request-fits", 8, 16)):
        timeline = by_id[f"preemption/{name}"].timeline
        assert timeline is not None
        assert [(len(request.prompt), request.max_tokens) for request in timeline.requests] == [
            (prompt, tokens)
        ]


def test_the_boundary_of_plans_is_every_length_around_every_multiple_for_2_to_9_blocks(
    suite: list[Case],
) -> None:
    found = {
        (case.scenario.config.num_blocks, case.scenario.config.max_model_len)
        for case in timelines(suite)
        if case.id.startswith("block-count/boundary/")
    }

    assert found == {
        (blocks, multiple * 16 + delta)
        for blocks in range(2, 10)
        for multiple in range(1, blocks + 2)
        for delta in (-1, 0, 1)
    }


def test_the_boundary_of_admission_ends_where_one_token_more_would_not_be_a_request(
    suite: list[Case],
) -> None:
    found = {
        (case.scenario.config.num_blocks, len(case.scenario.timeline.requests[0].prompt))
        for case in timelines(suite)
        if case.id.startswith("admission/boundary/") and case.scenario.timeline is not None
    }

    assert found == {
        (blocks, length)
        for blocks in range(2, 10)
        for multiple in range(1, blocks + 1)
        for delta in (-1, 0, 1)
        if (length := multiple * 16 + delta) < blocks * 16
    }


def test_at_least_250_scenarios_ask_questions_of_their_own(suite: list[Case]) -> None:
    """A boundary sweep and a report may meet in one question; few do."""
    questions = {case.hash for case in suite}

    assert len(questions) >= 250
    assert len(questions) >= 0.95 * len(suite)


def test_prompts_share_a_block_only_where_the_file_says_so(suite: list[Case]) -> None:
    """Requests whose prompts are plain lengths begin with different ids; `of` and `seed` make prefixes."""
    sharing = {
        case.id.split("/")[1]
        for case in timelines(suite)
        if case.scenario.timeline is not None
        for a, b in combinations(case.scenario.timeline.requests, 2)
        if a.prompt[0] == b.prompt[0]
    }
    root = Path(__file__).resolve().parents[2]
    saying = {
        path.stem
        for path in scenario_files(root)
        if re.search(r"\{of:|output_of:|seed:", path.read_text("utf-8"))
    }

    assert sharing
    assert sharing <= saying


def test_titles_say_one_thing_each(suite: list[Case]) -> None:
    titles = [case.title for case in suite]

    assert max(len(title) for title in titles) <= 140
    assert [title for title in titles if "None" in title or "True" in title or "${" in title] == []


def test_the_whole_suite_loads_in_well_under_a_second(root: Path) -> None:
    load_suite(root)
    start = time.process_time()

    load_suite(root)

    assert time.process_time() - start < 1.0
