"""Small observations, findings and records, made by hand, for the tests of everything that is pure."""

from __future__ import annotations

import datetime
from typing import Any

from parity.finding import Finding, Judged, Plays
from parity.observation import End, Observation, PlanOk, Schedule, Step
from parity.records.record import Diverging, Exemplar, Front, OracleRef, Record, Stamp
from parity.scenario import Case, Config, Model, Request, Scenario, Timeline, Waiver
from parity.verdicts import Context

TODAY = datetime.date(2026, 12, 1)
HASH = "sha256:" + "1" * 64
MODEL = Model("opt-125m", 12, 12, 64, 2048, 50272)


def config(**changes: Any) -> Config:
    values: dict[str, Any] = {
        "model": MODEL,
        "dtype": "float32",
        "block_size": 16,
        "num_blocks": 4,
        "kv_cache_memory_bytes": 1 << 30,
        "max_model_len": "auto",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 8192,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
    }
    return Config(**{**values, **changes})


def request(name: str = "a") -> Request:
    return Request(name, 0, 0, [1], 1, 0, [7], None, True, [], 0, None, None)


def case(
    name: str = "auto-fit/null-block",
    level: Any = "plan",
    *,
    waive: tuple[str, ...] = (),
    outcomes: int | None = None,
) -> Case:
    timeline = Timeline([request()], [], [], 2000) if level == "schedule" else None
    return Case(
        scenario=Scenario(name, level, config(), timeline),
        title="a miniature",
        why=[],
        waive=[Waiver(item, "because") for item in waive],
        outcomes=outcomes,
        path="parity/scenarios/miniature.yaml",
        line=1,
    )


def plan(**changes: Any) -> PlanOk:
    """Ten blocks of 16, nine usable, a length of 144: both promises of the plan are kept (9 × 16 = 144)."""
    values: dict[str, Any] = {
        "warnings": [],
        "bytes_per_block": 1024,
        "num_blocks": 10,
        "usable_blocks": 9,
        "max_model_len": 144,
        "kv_cache_size_tokens": 144,
        "concurrency": (10, 9),
        "concurrency_label": "1.11x",
    }
    return PlanOk(**{**values, **changes})


def step(**changes: Any) -> Step:
    """A step that schedules one token of `a`, which holds block 1 of nine."""
    values: dict[str, Any] = {
        "aborted": [],
        "reset": [],
        "scheduled": [("a", 1)],
        "new": [],
        "resumed": [],
        "preempted": [],
        "cached": [],
        "evicted": [],
        "blocks": [("a", [1])],
        "free": 8,
        "running": ["a"],
        "waiting": [],
        "aborted_late": [],
        "finished": [],
        "free_after": 8,
    }
    return Step(**{**values, **changes})


def empty_step(**changes: Any) -> Step:
    """A step that schedules nothing; nothing runs, all nine blocks are free, and `a` waits."""
    values: dict[str, Any] = {
        "scheduled": [],
        "blocks": [],
        "free": 9,
        "free_after": 9,
        "running": [],
        "waiting": ["a"],
    }
    return step(**{**values, **changes})


FIRST = step(new=["a"], cached=[("a", 0)])
LAST = step(finished=[("a", "length", None)], free_after=9)


def schedule(
    *steps: Step, end: Any = "done", period: int | None = None, error: str | None = None
) -> Schedule:
    return Schedule(plan(), list(steps), End(end, period, error, [("a", len(steps))]))


def plays(*observations: Observation, failure: str | None = None) -> Plays:
    return Plays(observations, failure, 0.5)


def finding(number: int = 1, attribution: Any = "mirrored", **changes: Any) -> Finding:
    """A finding whose fingerprint and digests are made from `number`."""
    values: dict[str, Any] = {
        "fingerprint": print_of(number),
        "attribution": attribution,
        "property": "serves-advertised-length" if attribution == "mirrored" else None,
        "at": "max_model_len",
        "oracle": 64,
        "subject": 64 if attribution == "mirrored" else 48,
        "oracle_digest": digest_of(number),
        "subject_digest": digest_of(number + 1000),
    }
    return Finding(**{**values, **changes})


def judged(name: str = "auto-fit/null-block", *findings: Finding, **changes: Any) -> Judged:
    return Judged(**{"id": name, "level": "plan", "scenario_hash": HASH, "findings": findings, **changes})


def exemplar(of: Finding, name: str = "auto-fit/null-block", **changes: Any) -> Exemplar:
    values: dict[str, Any] = {
        "scenario": name,
        "scenario_hash": HASH,
        "at": of.at,
        "oracle": of.oracle,
        "subject": of.subject,
        "property": of.property,
        "fingerprint": of.fingerprint,
        "oracle_digest": None if of.attribution == "mirrored" else of.oracle_digest,
        "subject_digest": None if of.attribution == "mirrored" else of.subject_digest,
    }
    return Exemplar(**{**values, **changes})


def diverging(of: Finding, name: str = "auto-fit/null-block", **changes: Any) -> Diverging:
    values: dict[str, Any] = {
        "scenario": name,
        "at": of.at,
        "oracle": of.oracle,
        "subject": of.subject,
        "attribution": of.attribution,
        "fingerprint": of.fingerprint,
        "oracle_digest": of.oracle_digest,
        "subject_digest": of.subject_digest,
    }
    return Diverging(**{**values, **changes})


def record(of: Finding | None = None, name: str = "auto-fit/decided", **changes: Any) -> Record:
    """An accepted record of the finding, with it as its only exemplar in auto-fit/null-block."""
    shown = finding() if of is None else of
    values: dict[str, Any] = {
        "title": "A decision",
        "state": "accepted",
        "decision": "mirror" if shown.attribution == "mirrored" else "diverge",
        "fingerprints": [shown.fingerprint],
        "attribution": shown.attribution,
        "exemplars": [exemplar(shown)],
        "scope": {"scheduler": "sync"},
        "oracle": OracleRef("vllm-0.27.1"),
        "anchors": [],
        "references": [],
        "owner": "@maintainers",
        "proposed": Stamp(TODAY, "@somebody"),
        "decided": Stamp(TODAY, "@maintainers"),
        "expires": None,
        "on_bump": "measure again",
    }
    return Record(id=name, path=f"records/{name}.md", front=Front(**{**values, **changes}))


def context(**changes: Any) -> Context:
    values: dict[str, Any] = {
        "scenarios": frozenset({"auto-fit/null-block", "auto-fit/other"}),
        "choices": {"null-block-capacity": ("pin", "count", "reserve")},
        "policies": {},
        "partial": False,
        "today": TODAY,
    }
    return Context(**{**values, **changes})


def print_of(number: int) -> str:
    return f"f1:{number:016x}"


def digest_of(number: int) -> str:
    return f"sha256:{number:064x}"
