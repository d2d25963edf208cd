"""A request inside the engine: its tokens, how far they are computed, and when it stops."""

from __future__ import annotations

from enum import Enum

from engine.block_hash import BlockHash, first_parent, hash_block
from engine.wire import RequestSpec


class Status(Enum):
    """Where a request is. Everything after PREEMPTED has left the queues."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED_STOPPED = "stop"
    FINISHED_LENGTH = "length"
    FINISHED_ABORTED = "abort"


class Request:
    """Mirrors vllm/v1/request.py::Request for text in, text out.

    `all_token_ids` is the prompt and what was generated; `block_hashes` has one key for each full block of
    it (none when `hash_block_size` is None). `num_computed_tokens` counts tokens whose keys and values are
    in the cache, or will be after the step under way; a preemption sets it to 0.
    """

    __slots__ = (
        "all_token_ids",
        "arrival",
        "block_hashes",
        "eos_token_id",
        "hash_block_size",
        "id",
        "max_tokens",
        "min_tokens",
        "num_computed_tokens",
        "num_prompt_tokens",
        "parent_hash",
        "priority",
        "reads_cache",
        "status",
        "stop_reason",
        "stop_token_ids",
    )

    def __init__(self, spec: RequestSpec, hash_block_size: int | None) -> None:
        self.id = spec.id
        self.arrival = spec.arrival
        self.priority = spec.priority
        self.all_token_ids = list(spec.prompt)
        self.num_prompt_tokens = len(spec.prompt)
        self.num_computed_tokens = 0
        self.max_tokens = spec.max_tokens
        self.min_tokens = spec.min_tokens
        self.eos_token_id = None if spec.ignore_eos else spec.eos_token_id
        self.stop_token_ids = frozenset(spec.stop_token_ids)
        self.reads_cache = spec.prompt_logprobs is None
        self.status = Status.WAITING
        self.stop_reason: int | None = None
        self.hash_block_size = hash_block_size
        self.block_hashes: list[BlockHash] = []
        self.parent_hash = first_parent(spec.cache_salt)
        self._hash_full_blocks()

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.all_token_ids) - self.num_prompt_tokens

    @property
    def order(self) -> tuple[int, int, str]:
        """The place in a priority queue: smaller is served first."""
        return (self.priority, self.arrival, self.id)

    def append(self, token_id: int) -> None:
        """Add a generated token, and the key of the block that it fills."""
        self.all_token_ids.append(token_id)
        self._hash_full_blocks()

    def check_stop(self, max_model_len: int) -> bool:
        """Set the finished status that the last token earns, if any; nothing stops before `min_tokens`.

        EOS comes before stop ids, and both before the length. Mirrors vllm/v1/core/sched/utils.py::check_stop.
        """
        generated = self.num_output_tokens
        if generated < self.min_tokens:
            return False
        last = self.all_token_ids[-1]
        if last == self.eos_token_id:
            self.status = Status.FINISHED_STOPPED
        elif last in self.stop_token_ids:
            self.status = Status.FINISHED_STOPPED
            self.stop_reason = last
        elif self.num_tokens >= max_model_len or generated >= self.max_tokens:
            self.status = Status.FINISHED_LENGTH
        else:
            return False
        return True

    def _hash_full_blocks(self) -> None:
        size = self.hash_block_size
        if size is None:
            return
        hashes, tokens = self.block_hashes, self.all_token_ids
        start = len(hashes) * size
        while start + size <= len(tokens):
            self.parent_hash = hash_block(self.parent_hash, tokens[start : start + size])
            hashes.append(self.parent_hash)
            start += size
