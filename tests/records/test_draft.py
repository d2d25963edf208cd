"""Drafts from a run, records brought up to date by one, and their acceptance."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import RecordError, UsageError
from parity.finding import Decided, Finding, Verdict
from parity.records.draft import Measured, choose, draft, usual_anchors
from parity.records.layout import companion_text, create, draft_text
from parity.records.lint import lint
from parity.records.parse import Raw, parse_text, to_record
from parity.records.refresh import reread, rewritten, take_up
from parity.records.review import accepted
from parity.records.rules import Ground
from parity.runlog import FORMAT, Header, Pin, ScenarioLine, SideLine
from tests.parity.held import ENGINE, OTHER
from tests.records.miniature import HASH, TODAY, finding, print_of

PATH = "records/auto-fit/null-block.md"
PROSE = {
    "what is decided": "As the pin does.",
    "the reason, with": "Read upstream.",
    "what somebody who": "A request waits.",
    "the event that": "The pin moves.",
    "what a new pin means": "Measure again.",
}
MIRRORED, OURS = finding(1), finding(2, "ours")


def header(**policies: str) -> Header:
    pin = Pin("vllm-0.27.1", "0.27.1", "0.27.1")
    return Header(FORMAT, pin, None, True, "here", "sha256:0", "v1", policies, False, ENGINE)


def line(*findings: Finding, name: str = "auto-fit/null-block", verdict: Any = Verdict.NEW) -> ScenarioLine:
    side = SideLine([], None, 0.0)
    decided = tuple(Decided(item, None, verdict, None) for item in findings)
    return ScenarioLine(name, "plan", HASH, verdict, None, side, side, decided)


def measured(of: Finding, *others: Finding, name: str = "auto-fit/null-block", **policies: str) -> Measured:
    return Measured(header(**policies), line(of, *others, name=name), of)


def ground(root: Path) -> Ground:
    return Ground(root, ("auto-fit",), frozenset({"vllm-0.27.1"}))


def drafted(root: Path, of: Measured) -> str:
    return draft_text(draft(of, by="@maintainers", today=TODAY, anchors=usual_anchors(of, root, None)))


def written(text: str) -> str:
    """The draft with its prose written, and without the anchors that this tree has no source for."""
    rows = text.splitlines()
    for row in [row for row in rows if "TO BE WRITTEN" in row]:
        start = row.index("TO BE WRITTEN")
        told = next(prose for asked, prose in PROSE.items() if asked in row)
        rows[rows.index(row)] = row[:start].replace("'", "") + told
    kept = [row for row in rows if not row.startswith("- {at: ")]
    return "\n".join(row.replace("anchors:", "anchors: []") for row in kept) + "\n"


def raw(text: str, companion: str | None = None) -> Raw:
    return parse_text(text, PATH, companion)


def rules_broken(text: str, root: Path) -> set[str]:
    return {problem.rule for problem in lint(raw(text), ground(root))}


def test_a_draft_has_everything_but_the_prose(tmp_path: Path) -> None:
    text = drafted(tmp_path, measured(OURS))

    front = to_record(raw(text)).front
    (entry,) = front.exemplars
    assert (front.state, front.decision, front.attribution) == ("proposed", "undecided", "ours")
    assert (entry.scenario, entry.scenario_hash, entry.fingerprint) == (
        "auto-fit/null-block",
        HASH,
        print_of(2),
    )
    assert (entry.oracle_digest, entry.subject_digest) == (OURS.oracle_digest, OURS.subject_digest)
    assert (front.owner, front.proposed.on, front.decided) == ("@maintainers", TODAY, None)
    assert front.expires == TODAY + datetime.timedelta(days=90)
    assert front.scope["model_runner"] == "v1"
    assert rules_broken(text, tmp_path) == {"placeholder-left", "on-bump-empty", "anchor-syntax"}


@pytest.mark.parametrize("of", [MIRRORED, OURS])
def test_a_draft_passes_once_its_prose_is_written(tmp_path: Path, of: Finding) -> None:
    assert rules_broken(written(drafted(tmp_path, measured(of))), tmp_path) == set()


def test_a_mirrored_exemplar_needs_no_digests(tmp_path: Path) -> None:
    (entry,) = to_record(raw(drafted(tmp_path, measured(MIRRORED)))).front.exemplars

    assert (entry.property, entry.oracle_digest, entry.subject_digest) == (
        "serves-advertised-length",
        None,
        None,
    )


def test_what_a_policy_yields_goes_under_diverging(tmp_path: Path) -> None:
    of = measured(finding(6, "theirs"), **{"null-block-capacity": "reserve"})

    text = drafted(tmp_path, of)

    front = to_record(raw(text)).front
    assert (front.policy, front.exemplars) == ("null-block-capacity=reserve", [])
    assert (front.diverging[0].fingerprint, front.diverging[0].subject) == (print_of(6), 48)
    assert rules_broken(written(text), tmp_path) == set()


def test_a_record_has_one_policy() -> None:
    of = measured(OURS, one="a", two="b", three="pin")

    with pytest.raises(UsageError, match="the run was made under one=a and two=b"):
        _ = of.policy


def test_anchors_are_digested_where_the_source_is_at_hand(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "capacity.py").write_text("def plan():\n    return 1\n", encoding="utf-8")
    upstream = tmp_path / "site"
    (upstream / "vllm" / "v1" / "core").mkdir(parents=True)
    source = "def get_kv_cache_configs():\n    return 2\n"
    (upstream / "vllm" / "v1" / "core" / "kv_cache_utils.py").write_text(source, encoding="utf-8")

    of = measured(OURS)
    stepping = msgspec.structs.replace(of, line=msgspec.structs.replace(of.line, level="schedule"))

    with_both = usual_anchors(of, tmp_path, upstream)
    without = usual_anchors(of, tmp_path, None)

    assert [anchor.at.partition("/")[0] for anchor in with_both] == ["vllm", "engine"]
    assert all(anchor.digest is not None and anchor.digest.startswith("sha256:") for anchor in with_both)
    assert [anchor.digest is None for anchor in without] == [True, False]
    assert usual_anchors(stepping, tmp_path, upstream) == []  # neither file is there


def test_a_record_of_another_subject_cites_upstream_alone_and_says_its_profile(tmp_path: Path) -> None:
    of = msgspec.structs.replace(measured(OURS), header=foreign())

    front = draft(of, by="@maintainers", today=TODAY, anchors=usual_anchors(of, tmp_path, None))

    assert [anchor.at.partition("/")[0] for anchor in front.anchors] == ["vllm"]
    assert (front.scope["profile"], front.profile) == ("counts", "counts")
    assert draft(measured(OURS), by="@maintainers", today=TODAY, anchors=[]).profile == "exact"


def test_profiles_are_never_mixed_within_a_record(tmp_path: Path) -> None:
    record = to_record(raw(written(drafted(tmp_path, measured(OURS)))))

    with pytest.raises(UsageError, match="was measured in the profile exact, and this run in counts"):
        take_up(record, msgspec.structs.replace(measured(OURS), header=foreign()))


def foreign() -> Header:
    return msgspec.structs.replace(header(), subject=OTHER)


def test_the_only_open_finding_is_chosen() -> None:
    covered = Decided(MIRRORED, "auto-fit/x", Verdict.COVERED, None)
    both = msgspec.structs.replace(line(OURS), findings=(covered, *line(OURS).findings))

    assert choose(header(), both, None).finding == OURS
    assert choose(header(), both, 1).finding == MIRRORED


@pytest.mark.parametrize(
    ("of", "number", "message"),
    [
        (line(verdict=Verdict.MATCH), None, "is MATCH and has no finding to record"),
        (line(OURS, verdict=Verdict.STALE), None, "is STALE and has no finding to record"),
        (
            line(MIRRORED, OURS),
            None,
            "several findings: say which with --finding N — 1: mirrored at max_model_len",
        ),
        (line(MIRRORED, OURS), 3, "has 2 findings, not 3"),
        (line(finding(1, "harness")), None, "no record can cover that"),
    ],
)
def test_what_cannot_be_chosen_is_told(of: ScenarioLine, number: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=r"^auto-fit/null-block") as caught:
        choose(header(), of, number)

    assert message in str(caught.value)


def test_a_draft_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "records" / "auto-fit" / "x.md"
    create(path, "first")

    with pytest.raises(RecordError, match="exists already, and is not overwritten"):
        create(path, "second")

    assert path.read_text(encoding="utf-8") == "first"


# Acceptance.


def test_acceptance_changes_the_state_and_the_decider_and_no_other_byte(tmp_path: Path) -> None:
    text = written(drafted(tmp_path, measured(MIRRORED))).replace(
        "Read upstream.", "Read upstream — größer.\t"
    )

    after = accepted(raw(text), ground(tmp_path), by="@other", today=TODAY, solo=False)

    changed = [
        (old, new) for old, new in zip(text.splitlines(), after.splitlines(), strict=True) if old != new
    ]
    assert changed == [
        ("state: proposed", "state: accepted"),
        ("decided: null", 'decided: {on: 2026-12-01, by: "@other"}'),
    ]


def test_one_person_alone_has_to_say_so(tmp_path: Path) -> None:
    text = written(drafted(tmp_path, measured(MIRRORED)))

    with pytest.raises(
        RecordError,
        match=r"null-block.md:\d+: @maintainers proposed and decided .*--solo says so \[second-person\]",
    ):
        accepted(raw(text), ground(tmp_path), by="@maintainers", today=TODAY, solo=False)
    after = accepted(raw(text), ground(tmp_path), by="@maintainers", today=TODAY, solo=True)

    stamp = to_record(raw(after)).front.decided
    assert stamp is not None
    assert stamp.solo


def test_a_draft_with_anything_wrong_is_not_accepted(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"\(and \d+ more: `parity record lint`\)"):
        accepted(
            raw(drafted(tmp_path, measured(OURS))), ground(tmp_path), by="@other", today=TODAY, solo=False
        )


def test_only_a_proposed_record_is_accepted(tmp_path: Path) -> None:
    text = written(drafted(tmp_path, measured(MIRRORED)))
    after = accepted(raw(text), ground(tmp_path), by="@other", today=TODAY, solo=False)

    with pytest.raises(RecordError, match="only a proposed record can be accepted"):
        accepted(raw(after), ground(tmp_path), by="@other", today=TODAY, solo=False)


# Bringing a record up to date.


def decided_text(root: Path, of: Finding) -> str:
    text = written(drafted(root, measured(of)))
    return accepted(raw(text), ground(root), by="@other", today=TODAY, solo=False)


def taken_up(text: str, of: Measured, companion: str | None = None) -> tuple[str, str | None]:
    record = to_record(raw(text, companion))
    front = take_up(record, of)
    return rewritten(raw(text), front), companion_text(record.id, front)


def test_a_taken_up_scenario_is_added_and_the_record_is_proposed_again(tmp_path: Path) -> None:
    before = decided_text(tmp_path, OURS)

    after, beside = taken_up(before, measured(OURS, name="auto-fit/other"))

    front = to_record(raw(after)).front
    assert (front.state, front.decided, beside) == ("proposed", None, None)
    assert [entry.scenario for entry in front.exemplars] == ["auto-fit/null-block", "auto-fit/other"]
    assert after[after.index("## Decision") :] == before[before.index("## Decision") :]
    assert rules_broken(after, tmp_path) == set()


def test_a_scenario_that_was_measured_again_has_its_entry_replaced(tmp_path: Path) -> None:
    later = finding(3, "ours", subject=32)

    after, _ = taken_up(decided_text(tmp_path, OURS), measured(later))

    front = to_record(raw(after)).front
    assert [(entry.fingerprint, entry.subject) for entry in front.exemplars] == [(print_of(3), 32)]
    assert front.fingerprints == [print_of(3)]
    assert rules_broken(after, tmp_path) == set()


def test_more_than_three_of_a_difference_live_beside_the_record(tmp_path: Path) -> None:
    text, beside = decided_text(tmp_path, OURS), None
    for number in range(4):
        text, beside = taken_up(text, measured(OURS, name=f"auto-fit/case-{number}"), beside)

    assert beside is not None
    assert lint(raw(text, beside), ground(tmp_path)) == []
    assert len(to_record(raw(text, beside)).front.exemplars) == 5
    assert len(to_record(raw(text)).front.exemplars) == 3


def test_a_mirrored_record_takes_no_fourth_exemplar(tmp_path: Path) -> None:
    text = decided_text(tmp_path, MIRRORED)
    for number in range(2):
        text, _ = taken_up(text, measured(MIRRORED, name=f"auto-fit/case-{number}"))

    with pytest.raises(UsageError, match=f"has 3 exemplars of {MIRRORED.fingerprint} already"):
        taken_up(text, measured(MIRRORED, name="auto-fit/case-9"))


def test_a_mirrored_record_has_exemplars_of_each_of_its_shapes(tmp_path: Path) -> None:
    text, beside = decided_text(tmp_path, MIRRORED), None
    for number in range(2, 7):
        other = finding(number, "mirrored")
        text, beside = taken_up(text, measured(other, name=f"auto-fit/case-{number}"), beside)

    assert lint(raw(text, beside), ground(tmp_path)) == []
    assert beside is not None
    front = to_record(raw(text, beside)).front
    assert front.fingerprints == [print_of(number) for number in range(1, 7)]
    assert [entry.fingerprint for entry in front.exemplars] == front.fingerprints


def test_the_other_choice_is_taken_up_into_a_mirrored_record(tmp_path: Path) -> None:
    under = {"null-block-capacity": "reserve"}
    after, _ = taken_up(decided_text(tmp_path, MIRRORED), measured(finding(6, "theirs"), **under))

    front = to_record(raw(after)).front
    assert (front.attribution, front.fingerprints) == ("mirrored", [print_of(1)])
    assert (front.policy, front.diverging[0].subject) == ("null-block-capacity=reserve", 48)
    assert "Under the policy `null-block-capacity=reserve`:" in after
    assert rules_broken(after, tmp_path) == set()


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (measured(MIRRORED), "decides findings that are ours; this one is mirrored"),
        (measured(MIRRORED, some="policy"), "is mirrored under some=policy as well"),
    ],
)
def test_a_finding_of_another_kind_is_not_taken_up(tmp_path: Path, of: Measured, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        taken_up(decided_text(tmp_path, OURS), of)


def test_rereading_renews_the_digests_of_anchors_and_the_generated_part_only(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    source = tmp_path / "engine" / "sample.py"
    source.write_text("def answer():\n    return 42\n", encoding="utf-8")
    cited = 'anchors: [{at: "engine/sample.py::answer", digest: "sha256:' + "0" * 64 + '"}]'
    text = (
        decided_text(tmp_path, MIRRORED).replace("anchors: []", cited).replace("Both sides alike", "Edited")
    )
    assert rules_broken(text, tmp_path) == {"anchor-moved", "observed-edited"}

    after = reread(raw(text), to_record(raw(text)), tmp_path, None)

    assert rules_broken(after, tmp_path) == set()
    assert to_record(raw(after)).front.state == "accepted"
    source.unlink()
    with pytest.raises(RecordError, match=r"there is no file engine/sample\.py"):
        reread(raw(after), to_record(raw(after)), tmp_path, None)
