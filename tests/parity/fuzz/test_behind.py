"""What a known difference may hide: it is undone, and the rest is a scenario that shows what is left."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parity.engine_side import EngineSide
from parity.finding import Finding
from parity.fuzz.behind import is_explained, undone, without
from parity.fuzz.document import Document
from parity.fuzz.examine import Examined, Examiner, always
from tests.parity.fuzz.twins import examiner, frees_in_reverse, timeline


def ids(document: Document | None) -> list[str]:
    assert document is not None
    return [request["id"] for request in document["requests"]]


def seen_in(document: Document, fault: Any = frees_in_reverse) -> Examined:
    seen = examiner(fault).look(document)
    assert seen.judged.findings, "the fault must show"
    return seen


def test_a_request_goes_with_its_aborts_and_with_those_that_took_its_prompt() -> None:
    document = timeline(
        {"id": "a", "prompt": 20, "max_tokens": 2},
        {"id": "b", "prompt": [{"of": "a"}, {"new": 3}], "max_tokens": 2},
        {"id": "c", "prompt": [{"output_of": "b", "take": 1}], "max_tokens": 2},
        {"id": "d", "prompt": 5, "max_tokens": 2},
        aborts=[{"id": "b", "at": 1}, {"id": "d", "at": 1}],
    )

    left = without(document, "a")

    assert ids(left) == ["d"]
    assert left is not None
    assert left["aborts"] == [{"id": "d", "at": 1}]
    assert ids(document) == ["a", "b", "c", "d"]


def test_the_last_request_cannot_go() -> None:
    assert without(timeline({"id": "a", "prompt": 20, "max_tokens": 2}), "a") is None


def test_a_difference_at_a_request_is_undone_without_that_request() -> None:
    """The second request gets the first one's blocks, in the wrong order."""
    document = timeline(
        {"id": "a", "prompt": 40, "max_tokens": 1},
        {"id": "b", "at": 3, "prompt": 100, "max_tokens": 1},
        {"id": "c", "at": 40, "prompt": 5, "max_tokens": 1},
    )
    seen = seen_in(document)
    finding = seen.judged.findings[0]

    assert finding.at.startswith("steps[3].blocks[0]")
    assert ids(undone(document, finding, seen)) == ["a", "c"]


def test_another_capacity_is_undone_by_giving_both_the_oracles() -> None:
    """Planned are 4 blocks and a length of 64; a subject that reserves the null block says 48."""
    document: Document = {"level": "plan", "config": {"model": "opt-125m", "num_blocks": 4}}
    reserves = EngineSide({"null-block-capacity": "reserve"})
    seen = Examiner(always(EngineSide(), reserves), mirrors=False).look(document)
    finding = next(one for one in seen.judged.findings if one.attribution != "mirrored")

    left = undone(document, finding, seen)

    assert finding.at == "max_model_len"
    assert left == {
        "level": "plan",
        "config": {"model": "opt-125m", "num_blocks": 4, "max_model_len": 64},
    }
    assert undone(left or {}, finding, seen) is None


def test_an_exchange_goes_with_what_waits_for_it() -> None:
    finding = Finding("f1:0", "ours", None, "exchanges[1].status", 200, 400, "", "")
    document: Document = {
        "level": "serve",
        "config": {"model": "tiny-opt", "num_blocks": 8},
        "script": [
            {"at_once": [{"id": "a", "path": "/health"}, {"id": "b", "path": "/health"}]},
            {"open": {"id": "c", "path": "/health"}},
            {"await": {"id": "b"}},
            {"await": {"id": "c"}},
            {"leave": "b"},
        ],
    }

    left = undone(document, finding, None)  # type: ignore[arg-type]

    assert left is not None
    assert left["script"] == [
        {"at_once": [{"id": "a", "path": "/health"}]},
        {"open": {"id": "c", "path": "/health"}},
        {"await": {"id": "c"}},
    ]


@pytest.mark.parametrize("at", ["steps[2].free", "steps[2].free_after"])
def test_without_a_request_at_the_place_the_events_of_the_step_go_first(at: str) -> None:
    document = timeline(
        {"id": "a", "prompt": 20, "max_tokens": 9},
        {"id": "b", "at": 1, "prompt": 20, "max_tokens": 9},
        resets=[{"at": 2}, {"at": 5}],
    )
    seen = examiner().look(document)
    finding = Finding("f1:0", "ours", None, at, 1, 2, "", "")

    first = undone(document, finding, seen)
    second = undone(first or {}, finding, seen)

    assert first is not None
    assert first["resets"] == [{"at": 5}]
    assert ids(first) == ["a", "b"]
    assert ids(second) == ["a"]


def refused(body: dict[str, Any], path: str = "/v1/completions") -> Document:
    return {
        "level": "serve",
        "config": {"model": "tiny-opt", "num_blocks": 8},
        "script": [{"send": {"id": "a", "path": path, "body": body}}],
    }


def test_a_refusal_is_undone_by_asking_for_what_is_not_refused() -> None:
    document = refused({"prompt": "hello", "bad_words": ["a"], "max_tokens": 2})
    finding = Finding("f1:0", "ours", None, "exchanges[0].status", 200, 400, "", "")

    left = undone(document, finding, None)  # type: ignore[arg-type]

    assert left == refused({"prompt": "hello", "max_tokens": 2})
    assert is_explained(document, finding)
    assert not is_explained(left or {}, finding)
    assert undone(left or {}, finding, None) is None  # type: ignore[arg-type]


def test_only_the_endpoints_that_refuse_fields_need_one_to_explain_it() -> None:
    finding = Finding("f1:0", "ours", None, "exchanges[0].status", 200, 404, "", "")

    assert is_explained(refused({"input": "hello"}, "/v1/responses"), finding)
    assert is_explained(refused({}), msgspec.structs.replace(finding, at="health"))
