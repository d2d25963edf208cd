"""The last tokens of a text, special ones included: this engine's own cut beside that of the tokenizer itself."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from engine.tokenizer import Tokenizer

TEMPLATES = {
    "none": "$A",
    "first": "<s> $A",
    "last": "$A </s>",
    "both": "<s> $A </s>",
    "three": "<s> <s> $A </s>",
}


def tokenizer(template: str) -> Any:
    """One word a token, under a template of special tokens."""
    from tokenizers import Tokenizer as Fast
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<s>", "</s>", "a", "b", "c", "d", "?"])}
    fast = Fast(WordLevel(words, unk_token="?"))
    fast.pre_tokenizer = WhitespaceSplit()
    fast.post_processor = TemplateProcessing(single=template, special_tokens=[("<s>", 0), ("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token="<s>", eos_token="</s>", truncation_side="left"
    )


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("keep", range(9))
@pytest.mark.parametrize("text", ["a b c d", "<s> a </s>", ""])
def test_cuts_as_a_tokenizer_does_that_truncates_on_the_left(
    template: str, special: bool, keep: int, text: str
) -> None:
    itself = tokenizer(template)
    num_added = itself.num_special_tokens_to_add(pair=False) if special else 0
    own = Tokenizer(tokenizer(template))

    found = own.encode(text, add_special_tokens=special, keep=keep)

    if keep < num_added:  # it cannot be asked for fewer than it adds; upstream then keeps the last `keep`
        added = itself.encode("", add_special_tokens=True)
        assert found == added[len(added) - keep :]
    else:
        wanted = (
            itself.encode(text, add_special_tokens=special, truncation=True, max_length=keep) if keep else []
        )
        assert found == wanted
    assert own.encode(text, add_special_tokens=special) == itself.encode(
        text, add_special_tokens=special, truncation=False
    )


def test_a_folder_that_truncates_and_pads_by_itself_does_not_here() -> None:
    wrapped = tokenizer("<s> $A")
    wrapped._tokenizer.enable_truncation(2)
    wrapped._tokenizer.enable_padding(length=9)

    assert Tokenizer(wrapped).encode("a b c d") == [0, 2, 3, 4, 5]
