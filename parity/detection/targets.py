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


_ENGINE = ("tests/engine/test_driver.py", "tests/engine/test_random_timelines.py", "tests/parity/test_scenarios.py")
_JUDGE = ("tests/parity/test_judge.py", "tests/parity/test_bugs_items.py", "tests/records")
_ORACLE = (
    "tests/oracle/test_driver_schedule.py",
    "tests/oracle/test_driver_plan.py",
    "tests/oracle/test_driver_protocol.py",
    "tests/parity/test_titles.py",
)
_SERVED = (
    "tests/parity/test_serve_judging.py",
    "tests/parity/test_serve_properties.py",
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


def _once(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(files))


TARGETS: tuple[Target, ...] = (
    _engine("capacity", 26, "capacity"),
    _engine("block_pool", 26, "block_pool", "caching"),
    _engine("kv_manager", 26, "caching", "preemption", "scheduling"),
    _engine("block_hash", 6, "block_hash", "caching"),
    _engine("scheduler", 50, "scheduling", "preemption", "caching", "aborts"),
    _engine("request_queue", 12, "request_queue", "preemption"),
    _engine("request", 20, "request", "caching"),
    _engine("ending", 12, "driver"),
    _engine("full_state", 6, "driver"),
    _driver("driver", 10, "driver"),
    _driver("timeline", 24, "driver", "aborts"),
    _driver("integrity", 12, "integrity"),
    _upstream("schedule", 24, "schedule"),
    _upstream("plan", 6, "plan"),
    _upstream("state", 8, "schedule"),
    _upstream("ending", 10, "ending"),
    _upstream("config", 12, "plan"),
    _upstream("kinds", 8, "kinds"),
    _upstream("capture", 4, "plan"),
    _upstream("protocol", 8, "protocol"),
    _harness("decode", 14, "loader", "loader_serve"),
    _harness("observation", 5, "schemas", "numerics"),
    _harness("diff", 16, "diff", "numerics", "ties"),
    _harness("properties", 14, "properties"),
    _harness("shapes", 10, "fingerprint", "properties"),
    _harness("fingerprint", 24, "fingerprint", "serve_judging"),
    _harness("judge", 22, "judge", "serve_judging"),
    _harness("verdicts", 26, "verdicts", "verdicts_outcomes", "verdicts_policies"),
    _harness("outcomes", 8, "serve_judging", "verdicts_outcomes"),
    _harness("records/match", 12, "verdicts", "verdicts_outcomes", "verdicts_policies"),
    _harness("ties", 26, "ties"),
    _harness("tied_ends", 8, "ties"),
    _harness("token_lists", 10, "ties", "numerics"),
    _harness("numerics", 6, "numerics"),
    _harness("serve/normalise", 20),
    _harness("serve/folding", 26),
    _harness("serve/canonical", 14),
    _harness("serve/usages", 6),
    _harness("serve_properties", 14, "serve_properties"),
    _harness("serve_shapes", 8, "serve_judging", "fingerprint"),
    _harness("serve_usage", 10, "serve_properties"),
)
BY_FILE: dict[str, Target] = {target.file: target for target in TARGETS}
