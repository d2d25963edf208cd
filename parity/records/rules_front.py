"""Rules about what the front matter says: they read a typed record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from parity.fingerprint import SYNTAX
from parity.records.parse import read_companion
from parity.records.record import (
    MAX_EXEMPLARS,
    MAX_INLINE,
    NEEDS_EXPIRY,
    RATE,
    Exemplar,
    fingerprint_of,
    in_words,
)
from parity.records.rules import PLACEHOLDER, Fault, Faults, Page, RecordRule

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_POLICY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*=[a-z0-9]+(-[a-z0-9]+)*")
PERSON = re.compile(r"@[A-Za-z0-9][A-Za-z0-9_/-]*")
_URL = re.compile(r"https?://[^\s/]+\.[^\s]+")


def bad_area(page: Page) -> Faults:
    """The folder is a scenario family."""
    if page.record.area not in page.ground.families:
        yield Fault(1, f"area {page.record.area!r} is no family; they are {', '.join(page.ground.families)}")


def bad_slug(page: Page) -> Faults:
    """The file's name is lower-case words joined by dashes."""
    slug = page.record.id.partition("/")[2]
    if not SLUG.fullmatch(slug):
        yield Fault(1, f"slug {slug!r} is not lower-case words joined by dashes")


def id_mismatch(page: Page) -> Faults:
    """The findings beside a record name that record."""
    companion = read_companion(page.raw)
    if companion is not None and companion.record != page.record.id:
        yield Fault(
            1,
            f"names the record {companion.record!r} but stands beside {page.record.id}",
            page.raw.companion_path,
        )


def expiry_required(page: Page) -> Faults:
    """What is owed, unsupported or undecided has a day on which it is looked at again."""
    if page.front.decision in NEEDS_EXPIRY and page.front.expires is None:
        yield Fault(page.line("expires"), f"decision {page.front.decision!r} needs a date in 'expires'")


def exemplar_count(page: Page) -> Faults:
    """Mirrored: one to three exemplars of each fingerprint. A difference: at least one, or a diverging entry under its policy."""
    front = page.front
    if front.kind == "falsified":
        return
    number = len(front.exemplars)
    if front.attribution != "mirrored":
        if number == 0 and not front.diverging:
            yield Fault(
                page.line("exemplars"), "a difference names every scenario that it covers; here is none"
            )
        return
    if number == 0:
        yield Fault(page.line("exemplars"), "a mirrored finding names 1 to 3 exemplars, not 0")
    counts = Counter(fingerprint_of(front, entry) for entry in front.exemplars)
    for fingerprint, count in counts.items():
        if count > MAX_EXEMPLARS:
            yield Fault(
                page.line("exemplars"),
                f"a mirrored finding names 1 to {MAX_EXEMPLARS} exemplars, not {count} of {fingerprint}",
            )


def exemplars_inline(page: Page) -> Faults:
    """Beyond three, exemplars live in the findings beside the record."""
    inline = page.raw.values.get("exemplars") or []
    if len(inline) > MAX_INLINE:
        where = page.raw.companion_path.rpartition("/")[2]
        yield Fault(page.line("exemplars"), f"more than {MAX_INLINE} exemplars: move the rest to {where}")


def difference_digests(page: Page) -> Faults:
    """A difference's exemplar holds the digests of both whole observations: nothing hides behind it."""
    if page.front.attribution == "mirrored":
        return
    for entry, line, path in _exemplars(page):
        if entry.oracle_digest is None or entry.subject_digest is None:
            yield Fault(line, f"{entry.scenario}: a difference needs oracle_digest and subject_digest", path)


def digest_syntax(page: Page) -> Faults:
    """Every digest and scenario hash is `sha256:` and 64 hexadecimal digits."""
    for entry, line, path in _exemplars(page):
        named = [entry.scenario_hash, entry.oracle_digest, entry.subject_digest]
        named += [*entry.oracle_outcomes, *entry.subject_outcomes]
        yield from _bad_digests(named, line, path)
    for index, other in enumerate(page.front.diverging):
        digests = [other.scenario_hash, other.oracle_digest, other.subject_digest]
        yield from _bad_digests(digests, page.line("diverging", index), None)


def outcome_rates(page: Page) -> Faults:
    """The rates of one side's outcomes are `k of n`, of the same n plays, and add up to them."""
    for entry, line, path in _exemplars(page):
        for side, outcomes in (
            ("oracle", in_words(entry.oracle_outcomes)),
            ("subject", in_words(entry.subject_outcomes)),
        ):
            bad = [outcome.rate for outcome in outcomes.values() if not RATE.fullmatch(outcome.rate)]
            counts = [outcome.counts for outcome in outcomes.values()]
            total = sum(seen for seen, _ in counts)
            if bad:
                yield Fault(line, f"{entry.scenario}: rate {bad[0]!r} is not 'k of n'", path)
            elif any(plays != total for _, plays in counts):
                yield Fault(
                    line, f"{entry.scenario}: the {side}'s rates do not add up to their number of plays", path
                )


def fingerprint_syntax(page: Page) -> Faults:
    """Every fingerprint is `f1:` and 16 hexadecimal digits."""
    named = [(text, page.line("fingerprints", index)) for index, text in enumerate(page.front.fingerprints)]
    named += [
        (entry.fingerprint, page.line("diverging", index)) for index, entry in enumerate(page.front.diverging)
    ]
    for text, line in named:
        if not SYNTAX.fullmatch(text):
            yield Fault(line, f"fingerprint {text!r} is not f1: and 16 hexadecimal digits")


def fingerprint_unshown(page: Page) -> Faults:
    """Every fingerprint is shown by an exemplar or a diverging entry, and every exemplar shows one of them."""
    front = page.front
    if front.kind == "falsified":
        return
    if not front.fingerprints:
        yield Fault(page.line("fingerprints"), "names no fingerprint")
        return
    shown = {entry.fingerprint for entry in front.diverging}
    for entry, line, path in _exemplars(page):
        shown.add(fingerprint_of(front, entry))
        if entry.fingerprint is None and len(front.fingerprints) > 1:
            yield Fault(
                line, f"{entry.scenario}: with several fingerprints an exemplar says which it shows", path
            )
        elif entry.fingerprint is not None and entry.fingerprint not in front.fingerprints:
            yield Fault(
                line, f"{entry.scenario}: shows {entry.fingerprint}, which the record does not list", path
            )
    for index, text in enumerate(front.fingerprints):
        if text not in shown:
            yield Fault(page.line("fingerprints", index), f"no exemplar shows {text}")


def policy_syntax(page: Page) -> Faults:
    """`policy` is NAME=VALUE, in lower-case words joined by dashes."""
    policy = page.front.policy
    if policy is not None and not _POLICY.fullmatch(policy):
        yield Fault(page.line("policy"), f"policy {policy!r} is not NAME=VALUE")


def diverging_without_policy(page: Page) -> Faults:
    """What the other choice yields can only be replayed where the record says which choice that is."""
    if page.front.diverging and page.front.policy is None:
        yield Fault(page.line("diverging"), "diverging entries need a 'policy'")


def mirror_of_a_difference(page: Page) -> Faults:
    """`decision: mirror` says that both sides do the same, so it is for mirrored findings."""
    if page.front.decision == "mirror" and page.front.attribution != "mirrored":
        yield Fault(
            page.line("decision"), f"decision 'mirror' does not fit attribution {page.front.attribution!r}"
        )


def decided_required(page: Page) -> Faults:
    """An accepted record says who decided it and when."""
    if page.front.state == "accepted" and page.front.decided is None:
        hint = f"accept it with `parity record accept {page.record.id} --by @…`"
        yield Fault(page.line("decided"), f"state is accepted but 'decided' is empty: {hint}")


def decided_too_early(page: Page) -> Faults:
    """A proposed record has not been decided, and nothing is decided before it is proposed."""
    front = page.front
    if front.decided is None:
        return
    if front.state == "proposed":
        yield Fault(page.line("decided"), "state is proposed but 'decided' is filled in")
    elif front.decided.on < front.proposed.on:
        yield Fault(page.line("decided"), f"decided on {front.decided.on}, before it was proposed")


def second_person(page: Page) -> Faults:
    """Somebody else decides, unless the record says openly that it was one person."""
    front = page.front
    if front.decided is not None and front.decided.by == front.proposed.by and not front.decided.solo:
        yield Fault(
            page.line("decided"),
            f"{front.decided.by} proposed and decided this: somebody else decides, or --solo says so",
        )


def person_syntax(page: Page) -> Faults:
    """Owner, proposer and decider are handles that start with @."""
    front = page.front
    named = [("owner", front.owner), ("proposed", front.proposed.by)]
    if front.decided is not None:
        named.append(("decided", front.decided.by))
    for key, name in named:
        if not PERSON.fullmatch(name):
            yield Fault(page.line(key), f"{key}: {name!r} is no handle such as @maintainers")


def reference_url(page: Page) -> Faults:
    """References are links that a reader can follow."""
    for index, reference in enumerate(page.front.references):
        if not _URL.fullmatch(reference):
            yield Fault(
                page.line("references", index), f"reference {reference!r} is no http or https address"
            )


def scope_empty(page: Page) -> Faults:
    """A record says for which modes it was measured."""
    if not page.front.scope or not all(value.strip() for value in page.front.scope.values()):
        yield Fault(page.line("scope"), "scope says nothing: name scheduler mode, KV groups and model runner")


def other_profile(page: Page) -> Faults:
    """A record was measured in the profile that its subject is compared in now: profiles are never mixed."""
    made, now = page.front.profile, page.ground.profile
    if made != now:
        yield Fault(
            page.line("scope", "profile"),
            f"was measured in the profile {made!r}, and its subject is compared in {now!r}: measure it again",
        )


def bad_suite(page: Page) -> Faults:
    """`scope.suite` is a version of the suite."""
    suite = page.front.scope.get("suite")
    if suite != page.front.suite:
        yield Fault(page.line("scope", "suite"), f"scope.suite {suite!r} is no version such as 0.1")


def unknown_pin(page: Page) -> Faults:
    """`oracle.pin` is a file of oracle/pins/."""
    if page.front.oracle.pin not in page.ground.pins:
        line = page.line("oracle", "pin")
        known = ", ".join(sorted(page.ground.pins)) or "none"
        yield Fault(line, f"pin {page.front.oracle.pin!r} does not exist in oracle/pins/ (there: {known})")


def reason_required(page: Page) -> Faults:
    """A record that was taken back says why."""
    if page.front.state in ("retired", "withdrawn") and not (page.front.reason or "").strip():
        yield Fault(page.line("state"), f"state {page.front.state!r} needs a 'reason'")


def on_bump_empty(page: Page) -> Faults:
    """A record says what a new pin means for it."""
    text = page.front.on_bump.strip()
    if not text or text.startswith(PLACEHOLDER):
        yield Fault(page.line("on_bump"), "on_bump does not say what to do when the pin moves")


def title_empty(page: Page) -> Faults:
    text = page.front.title.strip()
    if not text or text.startswith(PLACEHOLDER):
        yield Fault(page.line("title"), "the title says nothing")


FRONT_RULES: tuple[RecordRule, ...] = (
    bad_area,
    bad_slug,
    id_mismatch,
    expiry_required,
    exemplar_count,
    exemplars_inline,
    difference_digests,
    digest_syntax,
    outcome_rates,
    fingerprint_syntax,
    fingerprint_unshown,
    policy_syntax,
    diverging_without_policy,
    mirror_of_a_difference,
    decided_required,
    decided_too_early,
    second_person,
    person_syntax,
    reference_url,
    scope_empty,
    other_profile,
    bad_suite,
    unknown_pin,
    reason_required,
    on_bump_empty,
    title_empty,
)


def _exemplars(page: Page) -> Iterator[tuple[Exemplar, int, str | None]]:
    """Each exemplar with the line, and the file if it is not the record's own, in which it stands."""
    inline = len(page.raw.values.get("exemplars") or [])
    for index, entry in enumerate(page.front.exemplars):
        if index < inline:
            yield entry, page.line("exemplars", index), None
        else:
            yield entry, 1, page.raw.companion_path


def _bad_digests(digests: list[str | None], line: int, path: str | None) -> Faults:
    for text in digests:
        if text is not None and not _DIGEST.fullmatch(text):
            yield Fault(line, f"{text!r} is not sha256: and 64 hexadecimal digits", path)
