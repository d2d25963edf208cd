"""The prefix cache's keys: a chain of digests in which each full block's key covers the whole prefix.

Two blocks have equal keys exactly when their tokens, all tokens before them and the cache salt are equal.
Mirrors vllm/v1/core/kv_cache_utils.py::hash_block_tokens in what is equal, not in the bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

BlockHash = bytes

ROOT: BlockHash = b"\0" * 16


def first_parent(cache_salt: str | None) -> BlockHash:
    """The parent of a request's first block: the salt separates requests that must not share a prefix.

    An empty salt is no salt, as upstream has it.
    """
    return blake2b(cache_salt.encode(), digest_size=16).digest() if cache_salt else ROOT


def hash_block(parent: BlockHash, token_ids: Sequence[int]) -> BlockHash:
    """The key of a full block of `token_ids` (each below 2**64) after `parent`."""
    return blake2b(parent + array("Q", token_ids).tobytes(), digest_size=16).digest()
