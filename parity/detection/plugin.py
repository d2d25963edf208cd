"""What pytest is given in a child: which test failed first, and nothing kept that a mutant made."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

PROFILE = "mutants"


class FirstFailure:
    """A pytest plugin that remembers the first test, set-up or file that failed."""

    def __init__(self) -> None:
        self.where: str | None = None

    def pytest_configure(self) -> None:
        """The same examples for every mutant and no clock; no example of a mutant's is kept for later runs."""
        slow = [HealthCheck.too_slow]
        settings.register_profile(
            PROFILE, database=None, derandomize=True, deadline=None, suppress_health_check=slow
        )
        settings.load_profile(PROFILE)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and self.where is None:
            self.where = str(report.nodeid)
