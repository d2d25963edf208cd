"""The hunt that a masked fault may hide in: generated scenarios, played on the oracle once, and on the engine with faults.

What counts as new is a function, `NewFindings`, so that a hunt by fingerprints alone and one that looks behind the known
can be measured alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

from parity.detection.material import Say
from parity.detection.replay import play
from parity.engine_side import EngineSide
from parity.errors import InconclusiveError
from parity.finding import Judged, Plays
from parity.fuzz.document import Document, case_from
from parity.fuzz.strategies import documents
from parity.judge import judge
from parity.observation import decode
from parity.oracle_side import find_pin, start_oracle
from parity.scenario import Scenario

VOID = "void:subject"
NewFindings = Callable[[Document, EngineSide, frozenset[str]], set[str]]


class Pool(msgspec.Struct, frozen=True):
    """Generated scenarios, and the oracle's observation of each, as plain JSON."""

    documents: list[Document]
    observations: list[Any]


def draw(count: int, number: int) -> list[Document]:
    """`count` different documents of level schedule, the same ones for the same seed `number`."""
    found: dict[bytes, Document] = {}

    @seed(number)
    @settings(
        max_examples=2 * count,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(documents("schedule"))
    def collect(document: Document) -> None:
        if len(found) < count:
            found.setdefault(msgspec.json.encode(document, order="sorted"), document)

    collect()
    return list(found.values())


def observe(root: Path, drawn: Sequence[Document], say: Say) -> Pool:
    """The documents as the live oracle plays them. Raises OracleError, InconclusiveError."""
    side = start_oracle(root, find_pin(root, None))
    observations = []
    try:
        side.hello()
        for number, document in enumerate(drawn):
            scenario = case_from(document, str(number)).scenario
            assert isinstance(scenario, Scenario)
            side.begin(scenario)
            played = side.finish()
            if played.observation is None:
                raise InconclusiveError(f"the oracle failed in generated scenario {number}: {played.failure}")
            observations.append(msgspec.to_builtins(played.observation))
    finally:
        side.close()
    say(f"{len(drawn)} generated scenarios played on the oracle")
    return Pool(list(drawn), observations)


def by_fingerprint(pool: Pool) -> NewFindings:
    """New is a fingerprint that is not known, whatever else the scenario holds."""
    oracle = {
        msgspec.json.encode(item): raw for item, raw in zip(pool.documents, pool.observations, strict=True)
    }

    def look(document: Document, engine: EngineSide, known: frozenset[str]) -> set[str]:
        return _prints(_judged(document, engine, oracle[msgspec.json.encode(document)])) - known

    return look


def search(
    pool: Pool, look: NewFindings, engine: EngineSide, known: frozenset[str], *, early: bool
) -> set[str]:
    """All that is new over the pool on this engine; `early` ends the search with the first."""
    new: set[str] = set()
    for document in pool.documents:
        new |= look(document, engine, known)
        if new and early:
            break
    return new


def _judged(document: Document, engine: EngineSide, raw: Mapping[str, Any]) -> Judged:
    case = case_from(document)
    return judge(case, Plays((decode(case.scenario.level, raw),)), play(engine, case))


def _prints(judged: Judged) -> set[str]:
    return {VOID} if judged.failure is not None else {finding.fingerprint for finding in judged.findings}
