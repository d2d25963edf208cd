"""The engine's claim is the default pin's: bumping one without the other is an error."""

from __future__ import annotations

from engine.mirrors import MIRRORED_PIN, MIRRORED_VERSION
from oracle.pins import DEFAULT_PIN, load_pin
from parity.root import CODE_ROOT


def test_the_engine_mirrors_the_default_pin() -> None:
    pin = load_pin(CODE_ROOT)

    assert pin.name == DEFAULT_PIN == MIRRORED_PIN
    assert pin.version == MIRRORED_VERSION
