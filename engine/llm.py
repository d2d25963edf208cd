"""What server and command line call: text or token ids in, text out, over one core.

A request is prepared (tokenised, checked, its parameters put in force) before anything is queued, so that what is
refused is refused with a reason; then it is submitted, once for each choice.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import msgspec

from engine.core import EngineCore
from engine.generation import Choice, Generation, TextOutput, TextSink
from engine.live import CoreRequest
from engine.outputs import FinishReason, TokenLogprobs
from engine.preparation import Prepared, Preparer
from engine.sampling import SamplingParams
from engine.stats import CoreStats
from engine.tokenizer import Tokenizer

__all__ = ["LLM", "Completed", "Prepared", "join", "set_soon"]


class Completed(msgspec.Struct, frozen=True):
    """One choice, whole. `text` is what follows the prompt."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None
    finish_reason: FinishReason
    stop_reason: int | str | None
    num_cached_tokens: int
    error: str | None


class LLM:
    """A model that serves. `defaults` are the model's own sampling parameters, for clients that name none.

    `ceiling` is the operator's limit of output tokens, `more_eos_token_ids` those of the generation config.
    """

    def __init__(
        self,
        core: EngineCore,
        tokenizer: Tokenizer,
        *,
        name: str,
        defaults: Mapping[str, float] | None = None,
        ceiling: int | None = None,
        more_eos_token_ids: Sequence[int] = (),
    ) -> None:
        self.core = core
        self.tokenizer = tokenizer
        self.name = name
        self.defaults = dict(defaults or {})
        self.ceiling = ceiling
        self.more_eos_token_ids = tuple(more_eos_token_ids)
        default = self.defaults.get("max_tokens")
        preparer = Preparer(tokenizer, self.max_model_len, self.vocab_size, default, ceiling)
        self.prepare = preparer.prepare  # tokenises and checks a request
        self._numbers = itertools.count()

    @property
    def max_model_len(self) -> int:
        """Tokens of prompt and output together."""
        return self.core.plan.max_model_len

    @property
    def alive(self) -> bool:
        """Whether requests are served."""
        return self.core.alive

    @property
    def vocab_size(self) -> int:
        return self.core.config.model.vocab_size

    def add(
        self,
        request_id: str,
        prepared: Prepared,
        tell: TextSink,
        *,
        index: int = 0,
        params: SamplingParams | None = None,
    ) -> Choice:
        """Queue one choice; `tell` is called from the core's thread, must not block, and ends with a reason.

        `params` are the choice's own where they differ from the request's. The id must be unique among those alive.
        """
        params = params or prepared.params
        choice = Choice(request_id, index, self.tokenizer.detokenizer(prepared.prompt, params))
        asked = CoreRequest(
            id=request_id,
            prompt=prepared.prompt,
            params=params,
            eos_token_id=self.tokenizer.eos_token_id,
            more_eos_token_ids=self.more_eos_token_ids,
            priority=prepared.priority,
            cache_salt=prepared.cache_salt,
        )
        self.core.add(asked, choice.sink(tell))
        return choice

    def submit(
        self, prepared: Prepared, wake: Callable[[], None], request_id: str | None = None
    ) -> Generation:
        """Queue every choice of a request. `wake` is called from the core's thread and must not block."""
        name = request_id if request_id is not None else f"request-{next(self._numbers)}"
        generation = Generation(prepared.params.n, self.core.abort, wake)
        try:
            for index in range(prepared.params.n):
                child = f"{index}_{name}" if prepared.params.n > 1 else name
                params = prepared.params.child(index)
                generation.choices.append(
                    self.add(child, prepared, generation.receive, index=index, params=params)
                )
        except BaseException:
            generation.abort()  # nobody will ever take what those that were queued yield
            raise
        return generation

    async def stream(self, prepared: Prepared, request_id: str | None = None) -> AsyncIterator[TextOutput]:
        """The outputs of all choices as they come, in the order of the core.

        Closing the iterator early, or cancelling whoever iterates, aborts what is still open.
        """
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        generation = self.submit(prepared, lambda: set_soon(loop, news), request_id)
        try:
            while not generation.done:
                await news.wait()
                news.clear()
                for output in generation.take():
                    yield output
        finally:
            generation.abort()

    def generate(
        self, requests: Iterable[Prepared], on_output: Callable[[int, TextOutput], None] | None = None
    ) -> list[list[Completed]]:
        """Every choice of every request, in the order given; blocks until all have ended.

        `on_output` gets each output as it comes, with the position of its request.
        """
        news = threading.Event()
        generations = [self.submit(prepared, news.set) for prepared in requests]
        gathered: list[list[TextOutput]] = [[] for _ in generations]
        try:
            while not all(generation.done for generation in generations):
                news.wait()
                news.clear()
                for position, generation in enumerate(generations):
                    for output in generation.take():
                        gathered[position].append(output)
                        if on_output is not None:
                            on_output(position, output)
        finally:
            for generation in generations:
                generation.abort()
        return [
            [join(choice.index, outputs) for choice in generation.choices]
            for generation, outputs in zip(generations, gathered, strict=True)
        ]

    def stats(self) -> CoreStats:
        return self.core.stats()

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is in flight, at most `timeout` seconds; whether that came to pass."""
        return self.core.drain(timeout)

    def stop(self) -> None:
        """Abort what is in flight and end the core; every client has its last output when this returns."""
        self.core.stop()


def join(index: int, outputs: Iterable[TextOutput]) -> Completed:
    """Choice `index` whole, from all outputs of its request, the last of which has the finish reason."""
    own = [output for output in outputs if output.index == index]
    last = own[-1]
    if last.finish_reason is None:
        raise ValueError(f"choice {index} has not ended")
    logprobs = [entry for output in own if output.logprobs is not None for entry in output.logprobs]
    return Completed(
        index=index,
        text="".join(output.text for output in own),
        token_ids=tuple(token for output in own for token in output.token_ids),
        logprobs=tuple(logprobs) if any(output.logprobs is not None for output in own) else None,
        prompt_logprobs=next((o.prompt_logprobs for o in own if o.prompt_logprobs is not None), None),
        finish_reason=last.finish_reason,
        stop_reason=last.stop_reason,
        num_cached_tokens=max(output.num_cached_tokens for output in own),
        error=last.error,
    )


def set_soon(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    """Wake the loop's side; a loop that is gone has nobody left to wake."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(news.set)
