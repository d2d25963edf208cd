"""Cache keys: equal exactly when tokens, the tokens before them, and the salt are."""

from __future__ import annotations

from engine.block_hash import ROOT, first_parent, hash_block


def test_equal_prefixes_have_equal_keys() -> None:
    assert hash_block(hash_block(ROOT, [1, 2]), [3, 4]) == hash_block(hash_block(ROOT, [1, 2]), [3, 4])


def test_a_key_covers_what_comes_before_the_block() -> None:
    assert hash_block(hash_block(ROOT, [1, 2]), [3, 4]) != hash_block(hash_block(ROOT, [1, 9]), [3, 4])


def test_a_key_depends_on_the_order_of_tokens() -> None:
    assert hash_block(ROOT, [1, 2]) != hash_block(ROOT, [2, 1])


def test_large_token_ids_are_not_cut() -> None:
    assert hash_block(ROOT, [1]) != hash_block(ROOT, [1 + 2**32])


def test_salts_separate_and_an_empty_salt_is_none() -> None:
    keys = {hash_block(first_parent(salt), [1, 2]) for salt in (None, "a", "b")}

    assert len(keys) == 3
    assert first_parent("") == first_parent(None)
