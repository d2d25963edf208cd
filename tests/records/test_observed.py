"""The generated part of a record is told from the front matter and from nothing else."""

from __future__ import annotations

from parity.records.observed import BEGIN, END, extract, observed, replace
from tests.records.miniature import diverging, exemplar, finding, record

OURS = finding(2, "ours")


def test_a_mirrored_finding_is_told_with_its_values() -> None:
    text = observed(record().front)

    assert text.startswith(BEGIN)
    assert text.endswith(f"{END}\n")
    assert "Both sides alike. Measured on vllm-0.27.1." in text
    row = "| `auto-fit/null-block` | `serves-advertised-length` | `max_model_len` | `64` | `64` |"
    assert row in text.splitlines()


def test_only_three_exemplars_stand_in_the_table() -> None:
    entries = [exemplar(OURS, f"auto-fit/case-{number}") for number in range(5)]

    text = observed(record(OURS, exemplars=entries).front)

    assert [f"case-{number}" in text for number in range(5)] == [True, True, True, False, False]
    assert "And 2 more, in the findings beside this record." in text


def test_the_other_choice_has_a_table_of_its_own() -> None:
    entry = diverging(finding(6, "theirs"))

    text = observed(record(policy="null-block-capacity=reserve", diverging=[entry]).front)

    assert "Under the policy `null-block-capacity=reserve`:" in text
    assert "| `auto-fit/null-block` |  | `max_model_len` | `64` | `48` |" in text.splitlines()


def test_a_value_with_a_bar_does_not_break_the_table() -> None:
    text = observed(record(exemplars=[exemplar(finding(oracle=["a|b"], subject={"x": None}))]).front)

    assert '| `["a\\|b"]` | `{"x":null}` |' in text


def test_a_falsified_hypothesis_names_what_has_to_go_on_matching() -> None:
    nothing = {"decision": None, "attribution": None, "fingerprints": [], "exemplars": []}
    text = observed(record(kind="falsified", scenario="admission/over-long", **nothing).front)

    assert "`admission/over-long` matches, and has to go on matching." in text


def test_what_was_generated_can_be_found_and_made_anew() -> None:
    old, new = record().front, record(OURS).front
    text = f"before\n{observed(old)}after\n"

    changed = replace(text, new)

    assert extract(text) == observed(old)
    assert changed == f"before\n{observed(new)}after\n"
    assert extract(f"{BEGIN}\n{BEGIN}\n{END}\n") is None
    assert extract(f"{END}\n{BEGIN}\n") is None
    assert extract("nothing") is None
