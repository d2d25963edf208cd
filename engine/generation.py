"""One client's request on its way through the core: its choices, their text, and who is woken when there is more.

The core's thread turns token ids into text and cuts at stop strings; the client's side takes what has gathered.
Each choice of `n` is a request of its own in the core.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import msgspec

from engine.detokenizer import Detokenizer
from engine.outputs import FinishReason, RequestOutput, Sink, TokenLogprobs

logger = logging.getLogger("nullblock.engine")


class TextOutput(msgspec.Struct, frozen=True):
    """What is new of one choice. `text` may lag behind `token_ids` while it could become a stop string.

    `prompt_logprobs` come once, with the choice's first output. After a finish reason nothing more comes.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    num_cached_tokens: int = 0
    error: str | None = None


TextSink = Callable[[TextOutput], None]


class Choice:
    """One of `n`: its id in the core, its text, and the reason why it ended, if it has."""

    __slots__ = ("detokenizer", "id", "index", "reason")

    def __init__(self, request_id: str, index: int, detokenizer: Detokenizer) -> None:
        self.id = request_id
        self.index = index
        self.detokenizer = detokenizer
        self.reason: FinishReason | None = None

    def sink(self, tell: TextSink) -> Sink:
        """What the core calls; it answers `stop` once a stop string is found, whatever the core knows.

        Tokens that cannot be made into text end the choice with `error`: who waits for it is told in any case.
        """

        def receive(output: RequestOutput) -> FinishReason | None:
            try:
                text = self._read(output)
            except BaseException as error:
                logger.exception("the text of %s cannot be made; it ends", self.id)
                text = _failed(self.index, output, error)
            self.reason = text.finish_reason
            tell(text)
            return self.reason

        return receive

    def _read(self, output: RequestOutput) -> TextOutput:
        """The output with its text; a stop string that it completes makes it the last one."""
        found = self.detokenizer.push(output.token_ids, stopped=output.finish_reason == "stop")
        reason: FinishReason | None = output.finish_reason if found is None else "stop"
        return TextOutput(
            index=self.index,
            text=self.detokenizer.take(finished=reason is not None),
            token_ids=output.token_ids,
            logprobs=output.logprobs,
            prompt_logprobs=output.prompt_logprobs,
            finish_reason=reason,
            stop_reason=output.stop_reason if found is None else found,
            num_cached_tokens=output.num_cached_tokens,
            error=output.error,
        )


def _failed(index: int, output: RequestOutput, error: BaseException) -> TextOutput:
    """The last output of a choice whose text cannot be made; one that was aborted stays so."""
    aborted = output.finish_reason == "abort"
    return TextOutput(
        index=index,
        text="",
        token_ids=output.token_ids,
        finish_reason="abort" if aborted else "error",
        num_cached_tokens=output.num_cached_tokens,
        error=None if aborted else output.error or f"its tokens have no text ({type(error).__name__})",
    )


class Generation:
    """A request under way. `wake` is called from the core's thread when there is something to take."""

    def __init__(self, count: int, abort: Callable[[Sequence[str]], None], wake: Callable[[], None]) -> None:
        self.choices: list[Choice] = []  # as many as were queued so far, at last `count`
        self._abort = abort
        self._wake = wake
        self._lock = threading.Lock()
        self._gathered: list[TextOutput] = []
        self._open = count

    @property
    def done(self) -> bool:
        """Whether the last output of every choice has been taken."""
        return self._open == 0

    def receive(self, output: TextOutput) -> None:
        """Gather an output; the first one since the last `take` wakes whoever waits."""
        with self._lock:
            first = not self._gathered
            self._gathered.append(output)
        if first:
            self._wake()

    def take(self) -> list[TextOutput]:
        """What has gathered since the last call, in order; empty when there is nothing new."""
        with self._lock:
            gathered, self._gathered = self._gathered, []
        self._open -= sum(output.finish_reason is not None for output in gathered)
        return gathered

    def abort(self) -> None:
        """End every choice that is still open."""
        self._abort([choice.id for choice in self.choices if choice.reason is None])
