"""What a hunt's report says of finds: the worst first, what each is called, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.fuzz.tally import tally_of
from parity.fuzz.unit import Find, Reduced
from parity.report.hunt import Hunted, Kept, counted_finds, hunt_object, hunt_text
from tests.parity.fuzz.test_log import header
from tests.parity.fuzz.test_tally import done, find

DOCUMENT = {"level": "schedule", "requests": [{"id": "r0"}, {"id": "r1"}]}
OURS = msgspec.structs.replace(find("f1:00000000000000aa", 0), document=DOCUMENT)
OTHER = msgspec.structs.replace(OURS, fingerprint="f1:00000000000000bb")
VOID = msgspec.structs.replace(OURS, fingerprint="void:subject", attribution=None, shape="no end within 20 s")
FLAKY = msgspec.structs.replace(VOID, fingerprint="flaky:subject", shape="shown in one play")


def hunted(*finds: Find, left: tuple[Find, ...] = (), stopped: str | None = None, **changes: Any) -> Hunted:
    kept = tuple(Kept(Reduced(one, 12, stopped), Path(one.fingerprint.replace(":", "-"))) for one in finds)
    tally = tally_of([done(0, *finds, *left, **changes)])
    return Hunted(header(), tally, kept, len(left), 1.0, 1, None)


def lines(hunt: Hunted) -> list[str]:
    return hunt_text(hunt).plain.splitlines()


def named(hunt: Hunted) -> list[str]:
    return [line.split(" in unit")[0] for line in lines(hunt) if " in unit 0: " in line]


@pytest.mark.parametrize(
    ("finds", "said"),
    [
        ([], "0 new fingerprints"),
        ([OURS], "1 new fingerprint"),
        ([VOID], "1 VOID"),
        ([OURS, FLAKY, VOID, OTHER], "1 VOID, 1 FLAKY, 2 new fingerprints"),
    ],
)
def test_what_has_no_fingerprint_is_not_called_one(finds: list[Find], said: str) -> None:
    assert counted_finds(finds) == said


def test_the_worst_verdict_stands_first() -> None:
    hunt = hunted(OURS, FLAKY, VOID)

    assert named(hunt) == [
        "VOID void:subject",
        "FLAKY flaky:subject",
        "NEW ours f1:00000000000000aa",
    ]
    assert [one["verdict"] for one in hunt_object(hunt)["finds"]] == ["VOID", "FLAKY", "NEW"]


@pytest.mark.parametrize(
    ("finds", "next_"),
    [
        ([OURS], "parity replay f1-00000000000000aa, or parity promote f1-00000000000000aa"),
        ([OURS, VOID], "parity replay void-subject"),
        ([FLAKY], "parity replay flaky-subject"),
    ],
)
def test_only_what_is_new_is_to_be_promoted(finds: list[Find], next_: str) -> None:
    assert lines(hunted(*finds))[-1].split("next: ")[1] == next_


@pytest.mark.parametrize(
    ("stopped", "said"),
    [
        (None, "2 requests, shrunk in 12 attempts: void-subject"),
        ("time", "2 requests, shrunk in 12 attempts, when the time ran out: void-subject"),
        ("it does not show again", "2 requests, not shrunk (it does not show again): void-subject"),
    ],
)
def test_a_find_says_how_small_it_was_made(stopped: str | None, said: str) -> None:
    assert f"    {said}" in lines(hunted(VOID, stopped=stopped))


def test_what_was_not_played_is_counted_apart() -> None:
    """Four of the ten scenarios of the unit."""
    hunt = hunted(VOID, scenarios=6)

    assert lines(hunt)[1].startswith("6 scenarios in ")
    assert lines(hunt)[2] == "4 more were not played: a side failed too often in their unit"
    assert (hunt_object(hunt)["scenarios"], hunt_object(hunt)["unplayed"]) == (6, 4)
    assert not any("not played" in line for line in lines(hunted(OURS)))


def test_what_was_left_is_named_by_its_verdict() -> None:
    hunt = msgspec.structs.replace(hunted(VOID, left=(FLAKY, OURS)), folder=Path("runs/hunts/x"))

    said = lines(hunt)

    assert "in the log, and not shrunk: 1 FLAKY, 1 new fingerprint more" in said
    assert "    parity shrink runs/hunts/x/hunt.jsonl#f1:00000000000000aa" in said


def test_what_no_verb_can_shrink_is_not_suggested() -> None:
    hunt = msgspec.structs.replace(hunted(left=(FLAKY,)), folder=Path("runs/hunts/x"))

    assert not any("parity shrink" in line for line in lines(hunt))


def test_what_there_is_one_of_is_in_the_singular() -> None:
    one = hunted(
        scenarios=1, plays=1, states=[7], pairs=["hit+stall"], steps=[1], behind={"preemption/decided": 1}
    )

    shown = "\n".join(lines(one))
    assert (
        "1 scenario in 1.0 s by 1 job (1 a second with the start-up, median 1 step), 1 distinct state"
        in shown
    )
    assert "1 pair of them" in shown
    assert "known: preemption/decided: 1 finding, looked behind 1 time" in shown
    assert not [
        word for word in ("1 scenarios", "1 jobs", "1 states", "1 pairs", "1 times") if f" {word}" in shown
    ]
