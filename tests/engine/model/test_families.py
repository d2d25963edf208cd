"""What is computed can be told without torch, and is what the families say themselves."""

from __future__ import annotations

from engine.families import architectures
from engine.models import families


def test_the_sources_tell_what_is_registered() -> None:
    assert architectures() == set(families())
    assert "OPTForCausalLM" in architectures()
