"""A tiny model with random weights, saved once a run, and the application over it, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.llm import LLM
from engine.options import EngineOptions
from engine.startup import load_llm
from tests.engine.server.talk import Talk


@pytest.fixture(scope="session")
def tiny_opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from engine.model_files import make_tiny_opt

    folder = tmp_path_factory.mktemp("models") / "tiny-opt"
    folder.mkdir()
    make_tiny_opt(folder)
    return folder


@pytest.fixture(scope="session")
def llm(tiny_opt: Path) -> Iterator[LLM]:
    """As upstream was started when the facts were measured: 64 blocks of 16, length 64, two sequences at once."""
    options = EngineOptions(str(tiny_opt), num_gpu_blocks_override=64, max_model_len=64, max_num_seqs=2)
    loaded = load_llm(options, lambda _line: None)
    yield loaded
    loaded.stop()


@pytest.fixture
def talk(llm: LLM) -> Iterator[Talk]:
    """A client of the application; when the test ends, nothing is running and every block is back."""
    made = Talk(llm)
    yield made
    made.assert_idle()
