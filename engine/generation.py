"""One client's request on its way through the core: its choices, their text, and who is woken when there is more.

The core's thread turns token ids into text and cuts at stop strings; the client's side takes what has gathered.
Each choice of `n` is a request of its own in the core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from engine.detokenizer import Detokenizer
from engine.outputs import FinishReason, RequestOutput, TokenLogprobs


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


class Choice:
    """One of `n`: its id in the core, and its text."""

    __slots__ = ("detokenizer", "id", "index", "open")

    def __init__(self, request_id: str, index: int, detokenizer: Detokenizer) -> None:
        self.id = request_id
        self.index = index
        self.detokenizer = detokenizer
        self.open = True

    def read(self, output: RequestOutput) -> TextOutput:
        """The output with its text; a stop string that it completes makes it the last one."""
        stopped_at = self.detokenizer.push(output.token_ids, stopped=output.finish_reason == "stop")
        reason: FinishReason | None = output.finish_reason if stopped_at is None else "stop"
        self.open = reason is None
        return TextOutput(
            index=self.index,
            text=self.detokenizer.take(finished=reason is not None),
            token_ids=output.token_ids,
            logprobs=output.logprobs,
            prompt_logprobs=output.prompt_logprobs,
            finish_reason=reason,
            stop_reason=output.stop_reason if stopped_at is None else stopped_at,
            num_cached_tokens=output.num_cached_tokens,
            error=output.error,
        )


class Generation:
    """A request under way. `wake` is called from the core's thread when there is something to take."""

    def __init__(
        self, choices: Sequence[Choice], abort: Callable[[Sequence[str]], None], wake: Callable[[], None]
    ) -> None:
        self.choices = tuple(choices)
        self._abort = abort
        self._wake = wake
        self._lock = threading.Lock()
        self._gathered: list[TextOutput] = []
        self._taken_open = len(choices)

    @property
    def done(self) -> bool:
        """Whether the last output of every choice has been taken."""
        return self._taken_open == 0

    def sink(self, choice: Choice) -> Callable[[RequestOutput], None]:
        """What the core calls for `choice`. After its stop string was found the core is told, and not heard."""

        def receive(output: RequestOutput) -> None:
            if not choice.open:
                return
            text = choice.read(output)
            if not choice.open and output.finish_reason is None:
                self._abort([choice.id])
            with self._lock:
                first = not self._gathered
                self._gathered.append(text)
            if first:
                self._wake()

        return receive

    def take(self) -> list[TextOutput]:
        """What has gathered since the last call, in order; empty when there is nothing new."""
        with self._lock:
            gathered, self._gathered = self._gathered, []
        self._taken_open -= sum(output.finish_reason is not None for output in gathered)
        return gathered

    def abort(self) -> None:
        """End every choice that is still open."""
        self._abort([choice.id for choice in self.choices if choice.open])
