"""Subjects as a run's header has them, for tests of what is made of it."""

from __future__ import annotations

from parity.runlog import Held

ENGINE = Held("engine", "sha256:0", ("inprocess", "serve"), "vllm", "exact", {}, "0.1")
OTHER = Held("other", "sha256:0123456789abcdef", ("process",), None, "counts", {}, "0.1", version="2.0")
