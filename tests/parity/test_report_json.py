"""The objects that scripts rely on."""

from __future__ import annotations

import msgspec

from parity.finding import NotCompared, Tie
from parity.observation import PlanOk
from parity.report_json import run_object, show_object
from parity.runlog import Pin, Seconds
from parity.serve.side import Times
from parity.subjects.lens import Lens
from parity.verdicts import decide
from tests.parity.held import ENGINE, OTHER
from tests.records.miniature import context, finding, judged, plan, record

CLEAR = Lens("plan", "exact", frozenset())


def test_the_object_of_a_run() -> None:
    of = finding(2, "ours")
    records = [record(of), record(finding(9), "auto-fit/gone", policy="no-such=value", exemplars=[])]
    decided = decide(
        [judged("auto-fit/null-block", of), judged("auto-fit/other", ties=(Tie("a", 0, 17, 0.00025),))],
        records,
        context(),
    )
    seen, ahead = decided.scenarios
    outcome = msgspec.structs.replace(
        decided,
        scenarios=(
            msgspec.structs.replace(seen, unobserved=3),
            msgspec.structs.replace(ahead, is_ahead=True),
        ),
        not_compared=(NotCompared("caching/reset", "schedule", "unsupported", ("resets",)),),
    )

    shown = run_object(
        outcome,
        pin=Pin("vllm-0.27.1", "0.27.1", "0.27.1"),
        partial=True,
        seconds=Seconds(1.0, 0.5, 0.25),
        servers={"oracle": Times(2, 30.5, 9.0, 0.5), "subject": Times()},
        subject=OTHER,
        against=ENGINE,
    )

    assert msgspec.json.decode(msgspec.json.encode(shown)) == {
        "pin": {"name": "vllm-0.27.1", "version": "0.27.1", "measured": "0.27.1"},
        "partial": True,
        "counts": {"ORPHAN": 1, "COVERED": 1, "MATCH": 1},
        "seconds": {"oracle": 1.0, "subject": 0.5, "harness": 0.25},
        "servers": {
            "oracle": {"starts": 2, "start_seconds": 30.5, "play_seconds": 9.0, "end_seconds": 0.5},
            "subject": {"starts": 0, "start_seconds": 0.0, "play_seconds": 0.0, "end_seconds": 0.0},
        },
        "subject": {
            "name": "other",
            "digest": "sha256:0123456789abcdef",
            "doors": ["process"],
            "mirrors": None,
            "profile": "counts",
            "observes": {},
            "suite": "0.1",
            "version": "2.0",
        },
        "against": {
            "name": "engine",
            "digest": "sha256:0",
            "doors": ["inprocess", "serve"],
            "mirrors": "vllm",
            "profile": "exact",
            "observes": {},
            "suite": "0.1",
            "version": None,
        },
        "scenarios": [
            {
                "id": "auto-fit/null-block",
                "level": "plan",
                "verdict": "COVERED",
                "findings": [
                    {
                        "fingerprint": of.fingerprint,
                        "attribution": "ours",
                        "property": None,
                        "at": "max_model_len",
                        "oracle": 64,
                        "subject": 48,
                        "record": "auto-fit/decided",
                        "verdict": "COVERED",
                    }
                ],
                "ties": [],
                "profile": "counts",
                "unobserved": 3,
                "ahead": False,
            },
            {
                "id": "auto-fit/other",
                "level": "plan",
                "verdict": "MATCH",
                "findings": [],
                "ties": [{"exchange": "a", "choice": 0, "position": 17, "gap": 0.00025}],
                "profile": "counts",
                "unobserved": 0,
                "ahead": True,
            },
        ],
        "not_compared": [
            {"id": "caching/reset", "level": "schedule", "why": "unsupported", "missing": ["resets"]}
        ],
        "records": [{"id": "auto-fit/gone", "verdict": "ORPHAN"}],
    }


def test_the_object_of_a_scenario_has_both_observations_and_the_first_difference() -> None:
    same = show_object("auto-fit/null-block", plan(), plan(), CLEAR)
    other = show_object("auto-fit/null-block", plan(), plan(max_model_len=48), CLEAR)

    assert same["first_difference"] is None
    assert (same["id"], same["oracle"]["status"], same["subject"]["max_model_len"]) == (
        "auto-fit/null-block",
        "ok",
        144,
    )
    assert other["first_difference"] == "max_model_len"


def test_the_object_of_a_scenario_has_nothing_that_was_not_seen() -> None:
    lens = Lens("plan", "exact", frozenset({"max_model_len", "warnings"}))
    oracle, subject = (lens.observation(plan(max_model_len=length)) for length in (144, 48))

    shown = show_object("auto-fit/null-block", oracle, subject, lens)

    assert shown["first_difference"] is None
    assert shown["oracle"] == shown["subject"]
    assert shown["oracle"].keys() == {"status", *PlanOk.__struct_fields__} - {"max_model_len", "warnings"}
