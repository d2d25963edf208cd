"""The pool: who is next, who is evicted, and that the null block never leaves its place."""

from __future__ import annotations

import pytest

from engine.block_pool import BlockPool, blocks_for


def keyed(pool: BlockPool, blocks: list[int], name: str = "k") -> None:
    for block in blocks:
        pool.insert(block, f"{name}{block}".encode())


@pytest.mark.parametrize(
    ("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (-1, 0), (-16, -1), (-17, -1)]
)
def test_a_part_of_a_block_is_a_block(tokens: int, blocks: int) -> None:
    assert blocks_for(tokens, 16) == blocks


def test_a_fresh_pool_hands_out_ascending_ids_without_the_null_block() -> None:
    pool = BlockPool(5, enable_caching=True)

    assert pool.num_free_blocks == 4
    assert pool.take(4) == [1, 2, 3, 4]
    assert pool.num_free_blocks == 0


def test_a_pool_of_one_block_has_nothing_to_hand_out() -> None:
    pool = BlockPool(1, enable_caching=True)

    with pytest.raises(KeyError):
        pool.take(1)


def test_with_caching_unkeyed_blocks_go_first_and_keyed_ones_last() -> None:
    """(40,1) with blocks of 16: two full blocks and a partial one; then never-used blocks, then tail to head."""
    pool = BlockPool(7, enable_caching=True)
    table = pool.take(3)
    keyed(pool, [1, 2])

    pool.release(reversed(table))

    assert list(pool.free) == [3, 4, 5, 6, 2, 1]


def test_without_caching_everything_goes_to_the_back() -> None:
    pool = BlockPool(7, enable_caching=False)

    pool.release(reversed(pool.take(3)))

    assert list(pool.free) == [4, 5, 6, 3, 2, 1]


def test_a_block_is_free_only_after_its_last_reference() -> None:
    pool = BlockPool(3, enable_caching=True)
    table = pool.take(1)
    keyed(pool, table)
    pool.touch(table)

    pool.release(table)
    assert pool.num_free_blocks == 1
    pool.release(table)

    assert pool.num_free_blocks == 2
    assert list(pool.free) == [2, 1]


def test_touching_a_free_block_takes_it_out_of_the_queue_and_keeps_its_key() -> None:
    pool = BlockPool(4, enable_caching=True)
    table = pool.take(1)
    keyed(pool, table)
    pool.release(table)
    assert pool.evictable(table) == 1

    pool.touch(table)

    assert pool.evictable(table) == 0
    assert list(pool.free) == [2, 3]
    assert pool.lookup(b"k1") == 1


def test_handing_out_a_keyed_block_evicts_it() -> None:
    pool = BlockPool(2, enable_caching=True)
    table = pool.take(1)
    keyed(pool, table)
    pool.release(table)

    assert pool.take(1) == [1]

    assert pool.lookup(b"k1") is None
    assert pool.hash_of == {}


def test_equal_blocks_are_kept_apart_and_the_first_inserted_is_found() -> None:
    pool = BlockPool(5, enable_caching=True)
    pool.take(3)
    for block in (3, 1, 2):
        pool.insert(block, b"same")

    found = [pool.lookup(b"same")]
    for block in (3, 1):
        pool.release([block])
        pool.take(pool.num_free_blocks)
        found.append(pool.lookup(b"same"))

    assert found == [3, 1, 2]


def test_a_reset_is_refused_while_a_block_is_in_use() -> None:
    pool = BlockPool(3, enable_caching=True)
    table = pool.take(1)
    keyed(pool, table)

    assert pool.reset() is False
    assert pool.lookup(b"k1") == 1

    pool.release(table)
    assert pool.reset() is True
    assert pool.lookup(b"k1") is None
