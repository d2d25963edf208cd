"""The real model, where `make model` made it: its logits are transformers' and its text is sense."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.model_runner import ModelRunner, Row
from tests.engine.model.steps import play

FOLDER = Path(__file__).resolve().parents[3] / ".models" / "smollm2-135m-instruct"
pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    assert FOLDER.is_dir(), "there is no .models/smollm2-135m-instruct: run `make model` (make test does)"
    return ModelRunner.load(FOLDER, "float32", "cpu", 32, 16, 512)


def test_every_logit_of_a_chunked_prompt_is_transformers_s(runner: ModelRunner) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    prompt = random.Random(5).choices(range(100, 49_000), k=96)
    with torch.inference_mode():
        expected = model(torch.tensor([prompt])).logits[0]

    table = [9, 3, 4, 1, 30, 2]
    first = runner.execute([Row("a", prompt[:70], 0, table, sample=False, prompt_logits=True)])
    rest = runner.execute([Row("a", prompt[70:], 70, table, prompt_logits=True)])

    logits = torch.cat([first.prompt["a"], rest.prompt["a"]])
    assert float((logits - expected).abs().max()) < 2e-4


def test_it_knows_the_capital_of_france(runner: ModelRunner) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(FOLDER)
    prompt = tokenizer("The capital of France is").input_ids

    played = play(runner, {"a": prompt}, 6)

    assert "Paris" in tokenizer.decode(played.outputs["a"])
