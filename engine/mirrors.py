"""Which upstream this engine mirrors, so that a test can hold the claim against the default pin."""

from __future__ import annotations

from typing import Final

MIRRORED_VERSION: Final = "0.27.1"
MIRRORED_PIN: Final = "vllm-0.27.1"
