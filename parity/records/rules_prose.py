"""Rules about a record's prose: its sections, and the part of it that is generated."""

from __future__ import annotations

from parity.records.observed import extract, observed
from parity.records.rules import PLACEHOLDER, Fault, Faults, Page, RecordRule

OBSERVED = "What is observed"
CORRECTIONS = "Corrections"
PROSE = ("Decision", "Why", "What a user notices", "Reconsider when")
SECTIONS = (OBSERVED, *PROSE, CORRECTIONS)


def section_missing(page: Page) -> Faults:
    """Every section is there, and no other."""
    titles = [section.title for section in page.record.sections]
    for title in SECTIONS:
        if title not in titles:
            yield Fault(1, f"section '## {title}' is missing")
    for section in page.record.sections:
        if section.title not in SECTIONS:
            yield Fault(section.line, f"'## {section.title}' is no section of a record")


def section_order(page: Page) -> Faults:
    """The sections stand in their order, once each; corrections come last, under what they correct."""
    titles = [section.title for section in page.record.sections if section.title in SECTIONS]
    wanted = [title for title in SECTIONS if title in titles]
    if titles != wanted:
        line = next(
            (
                section.line
                for section, title in zip(page.record.sections, wanted, strict=False)
                if section.title != title
            ),
            page.record.sections[-1].line,
        )
        yield Fault(line, f"sections are not in the order {', '.join(SECTIONS)}, once each")


def section_empty(page: Page) -> Faults:
    """Decision, why, what a user notices and when to reconsider are told. There may be no corrections."""
    for section in page.record.sections:
        if section.title in PROSE and not section.body.strip():
            yield Fault(section.line, f"section '## {section.title}' is empty")


def placeholder_left(page: Page) -> Faults:
    """Nothing is left of the draft's placeholders."""
    for section in page.record.sections:
        if PLACEHOLDER in section.body:
            yield Fault(section.line, f"section '## {section.title}' still has the draft's placeholder")


def observed_edited(page: Page) -> Faults:
    """The generated part is what the front matter makes it; it is corrected there, never by hand."""
    for section in page.record.sections:
        if section.title != OBSERVED:
            continue
        found = extract(section.body)
        if found is None:
            yield Fault(section.line, "the two markers of the generated part are not there, once each")
        elif found != observed(page.front):
            yield Fault(
                section.line,
                f"the generated part was edited, or the front matter was: run `parity record refresh {page.record.id}`",
            )


PROSE_RULES: tuple[RecordRule, ...] = (
    section_missing,
    section_order,
    section_empty,
    placeholder_left,
    observed_edited,
)
