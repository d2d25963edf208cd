"""The core's tests need torch, as the core does; and a tiny model for what needs text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.llm import LLM
from engine.model_files import make_tiny_opt
from engine.options import EngineOptions
from engine.startup import load_llm
from engine.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tiny_opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a two-layer OPT of random weights, its tokenizer and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "tiny-opt"
    make_tiny_opt(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tiny_opt: Path) -> Tokenizer:
    return Tokenizer.load(tiny_opt)


@pytest.fixture(scope="module")
def llm(tiny_opt: Path) -> Iterator[LLM]:
    """tiny-opt that serves, with 64 blocks of 16."""
    served = load_llm(EngineOptions(model=str(tiny_opt), num_gpu_blocks_override=64), lambda _line: None)
    yield served
    served.stop()


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_args: object, **_named: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr("engine.model_runner.ModelRunner.load", loaded)
