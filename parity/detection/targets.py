"""What is mutated, and which tests speak of it, the most specific first.

Group `engine` is the subject, `judge` all that decides about it: both drivers, and the harness from observation to
verdict. Nothing of a level `serve` can be seen by a check of the levels plan and schedule; its modules are tests' to guard.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Group = Literal["engine", "judge"]
Side = Literal["subject", "harness", "oracle"]


class Target(NamedTuple):
    """One file: its group, on which side of a check it runs, how many mutants a usual run plants, and its tests."""

    file: str
    group: Group
    side: Side
    share: int
    tests: tuple[str, ...]


_ENGINE = (
    "tests/engine/test_driver.py",
    "tests/engine/test_random_timelines.py",
    "tests/parity/test_scenarios.py",
)
_JUDGE = (
    "tests/parity/test_edges_of_judging.py",
    "tests/parity/test_edges_of_records.py",
    "tests/parity/test_judge.py",
    "tests/records",
)
_ORACLE = (
    "tests/oracle/test_driver_schedule.py",
    "tests/oracle/test_driver_plan.py",
    "tests/oracle/test_native.py",
    "tests/oracle/test_fidelity.py",
    "tests/parity/test_titles.py",
)
_SERVED = (
    "tests/parity/test_serve_judging.py",
    "tests/parity/test_serve_properties.py",
    "tests/parity/serve/test_edges_of_streams.py",
    "tests/parity/serve/test_canonical.py",
    "tests/parity/serve/test_normalise.py",
    "tests/parity/serve/test_streams_apart.py",
    "tests/parity/test_numerics.py",
    "tests/parity/test_ties.py",
)


def _engine(name: str, share: int, *tests: str) -> Target:
    own = tuple(f"tests/engine/test_{test}.py" for test in tests)
    return Target(f"engine/{name}.py", "engine", "subject", share, _once(own + _ENGINE))


def _driver(name: str, share: int, *tests: str) -> Target:
    own = tuple(f"tests/engine/test_{test}.py" for test in tests)
    return Target(f"engine/{name}.py", "judge", "subject", share, _once(own + _ENGINE))


def _upstream(name: str, share: int, *tests: str) -> Target:
    own = tuple(f"tests/oracle/test_driver_{test}.py" for test in tests)
    return Target(f"oracle/driver/{name}.py", "judge", "oracle", share, _once(own + _ORACLE))


def _harness(name: str, share: int, *tests: str) -> Target:
    own = tuple(f"tests/parity/test_{test}.py" for test in tests)
    return Target(f"parity/{name}.py", "judge", "harness", share, _once(own + _JUDGE + _SERVED))


def _subject(name: str, share: int, *tests: str) -> Target:
    own = tuple(f"tests/parity/subjects/test_{test}.py" for test in tests)
    return Target(f"parity/subjects/{name}.py", "judge", "harness", share, own)


def _once(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(files))


TARGETS: tuple[Target, ...] = (
    _engine("capacity", 22, "capacity"),
    _engine("block_pool", 22, "block_pool", "caching"),
    _engine("kv_manager", 22, "caching", "preemption", "scheduling"),
    _engine("block_hash", 5, "block_hash", "caching"),
    _engine("scheduler", 42, "scheduling", "preemption", "caching", "aborts"),
    _engine("request_queue", 10, "request_queue", "preemption"),
    _engine("request", 17, "request", "caching"),
    _engine("ending", 10, "driver"),
    _engine("full_state", 5, "driver"),
    _driver("driver", 6, "driver"),
    _driver("timeline", 14, "edges_of_timelines", "driver", "aborts"),
    _driver("integrity", 7, "integrity"),
    _upstream("schedule", 14, "schedule"),
    _upstream("door", 8, "edges", "schedule", "plan"),
    _upstream("plan", 4, "plan"),
    _upstream("state", 5, "readings", "schedule"),
    _upstream("ending", 6, "ending"),
    _upstream("config", 7, "readings", "plan"),
    _upstream("kinds", 5, "kinds"),
    _upstream("capture", 4, "readings", "plan"),
    _upstream("protocol", 5, "edges", "protocol"),
    _harness("decode", 8, "loader", "loader_serve"),
    _harness("observation", 4, "schemas", "numerics"),
    _harness("diff", 10, "diff", "numerics", "ties"),
    _harness("properties", 8, "properties"),
    _harness("shapes", 6, "fingerprint", "properties"),
    _harness("fingerprint", 14, "fingerprint", "serve_judging"),
    _harness("judge", 13, "judge", "serve_judging"),
    _harness("verdicts", 16, "verdicts", "verdicts_outcomes", "verdicts_policies"),
    _harness("outcomes", 5, "serve_judging", "verdicts_outcomes"),
    _harness("records/match", 7, "verdicts", "verdicts_outcomes", "verdicts_policies"),
    _harness("ties", 16, "ties"),
    _harness("tied_ends", 5, "ties"),
    _harness("token_lists", 6, "ties", "numerics"),
    _harness("numerics", 4, "numerics"),
    _harness("serve/normalise", 12),
    _harness("serve/folding", 16),
    _harness("serve/canonical", 8),
    _harness("serve/usages", 4),
    _harness("serve_properties", 8, "serve_properties"),
    _harness("serve_shapes", 5, "serve_judging", "fingerprint"),
    _harness("serve_usage", 6, "serve_properties"),
    _subject("lens", 10, "lens", "profiles"),
    _subject("profiles", 10, "profiles"),
    _subject("capabilities", 8, "capabilities", "choice"),
    _subject("choice", 6, "choice"),
    _subject("ratchet", 6, "ratchet"),
)
BY_FILE: dict[str, Target] = {target.file: target for target in TARGETS}
