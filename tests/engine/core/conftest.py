"""The core's tests need torch, as the core does; what has no torch is tested one folder above."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the environment of requirements/model.lock (make test has it)")
