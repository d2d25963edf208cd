"""What both endpoints that generate have in common: names, defaults, and the way from prompts to a flight."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from engine import __version__
from engine.generation import TextOutput
from engine.limits import Room, check_servable
from engine.llm import Completed, Prepared, join
from engine.sampling import SamplingParams
from engine.server import params
from engine.server.backend import Backend
from engine.server.errors import unknown_model
from engine.server.flights import Flight, Flights
from engine.server.params import Defaults
from engine.server.prompts import Prompt
from engine.server.requests import ChatBody, CompletionBody
from engine.server.worker import Worker


class Served(msgspec.Struct, frozen=True):
    """What is served, and how it calls itself. The first of `names` is what responses say."""

    names: tuple[str, ...]
    root: str
    version: str
    fingerprint: str
    defaults: Defaults = Defaults()

    def check_model(self, name: str | None) -> None:
        """Raise Refused (404) for a name that is not served; no name is any model."""
        if name and name not in self.names:
            raise unknown_model(name)


def describe(model: str, names: tuple[str, ...], configuration: object, defaults: Defaults) -> Served:
    """How a server of `model` calls itself; the fingerprint changes with version, model and configuration.

    A folder's name is its path as given, as upstream has it.
    """
    version = __version__
    digest = hashlib.sha256(repr((version, model, configuration)).encode()).hexdigest()[:8]
    return Served(names or (model,), model, version, f"nullblock-{version}-{digest}", defaults)


class Asked(msgspec.Struct, frozen=True):
    """A prompt that fits and its parameters, before the checks that only the engine's side makes."""

    prompt: Prompt
    params: SamplingParams


class Service:
    """Shared by the endpoints; one instance for the life of the server."""

    def __init__(self, served: Served, backend: Backend, flights: Flights) -> None:
        self.served = served
        self.backend = backend
        self.flights = flights
        self.worker = Worker()

    def ask(
        self,
        body: CompletionBody | ChatBody,
        prompt: Prompt,
        room: Room,
        logprobs: int | None,
        prompt_logprobs: int | None,
        *,
        at_least: int | None = None,
    ) -> Asked:
        """The parameters of one prompt; `at_least` replaces the number of tokens to generate.

        Raises RequestRefused for what is wrong whatever the model is.
        """
        defaults = self.served.defaults
        granted = room.granted(len(prompt.token_ids), defaults.max_tokens, defaults.ceiling)
        sampling = params.early(
            body,
            granted if at_least is None else at_least,
            defaults,
            logprobs,
            prompt_logprobs,
            self.backend.vocab_size,
            room.max_model_len,
        )
        return Asked(prompt, sampling)

    def flight(self, body: CompletionBody | ChatBody, asked: Sequence[Asked], request_id: str) -> Flight:
        """Make everything ready for take-off. Raises RequestRefused for what only this model refuses."""
        vocab, length = self.backend.vocab_size, self.backend.max_model_len
        prepared = []
        for request in asked:
            sampling = request.params.validate(vocab, length)
            check_servable(request.prompt.token_ids, length, vocab)
            prepared.append(Prepared(request.prompt.token_ids, sampling, body.priority, body.cache_salt))
        return Flight(self.flights, prepared, request_id)

    def prompt_text(self, prompt: Prompt) -> str:
        """The text of a prompt, for clients that want it back: all that they sent, also where it was cut."""
        return self.backend.tokenizer.decode(prompt.sent) if prompt.text is None else prompt.text


def response_id(kind: Literal["cmpl", "chatcmpl"], header: str | None, body_id: str) -> str:
    """The id of a response: the X-Request-Id header's, even an empty one, or else the body's."""
    return f"{kind}-{body_id if header is None else header}"


def wants_usage(body: CompletionBody | ChatBody) -> tuple[bool, bool]:
    """Whether a stream ends with a usage chunk, and whether every chunk has usage; the second needs the first."""
    options = body.stream_options
    if options is None or not options.include_usage:
        return False, False
    return True, bool(options.continuous_usage_stats)


async def gathered(flight: Flight) -> list[Completed]:
    """Fly, and return the choices whole, in the order of their index."""
    outputs: defaultdict[int, list[TextOutput]] = defaultdict(list)
    async with flight:
        async for piece in flight.pieces():
            outputs[piece.index].append(piece)
    return [join(index, outputs[index]) for index in sorted(outputs)]
