"""POST /v1/completions: one or more prompts, as texts or as token ids, each with n choices; whole or as a stream.

Mirrors vllm/entrypoints/openai/completion/serving.py::OpenAIServingCompletion.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

import msgspec
from fastapi import Request, Response

from engine.generation import TextOutput
from engine.limits import Room
from engine.llm import Completed
from engine.outputs import TokenLogprobs
from engine.sampling import RequestRefused
from engine.server import logprobs as formats
from engine.server.constraints import check_constraints
from engine.server.fields import Endpoint, refuse_unsupported
from engine.server.flights import Flight
from engine.server.logprobs import TokenTexts
from engine.server.prompts import Prompt, reader
from engine.server.requests import CompletionBody
from engine.server.responses import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogprobs,
    encode,
    usage,
)
from engine.server.service import Asked, Service, gathered, response_id, wants_usage
from engine.server.streaming import answered, paced, streamed
from engine.server.worker import size_of

PATH: Endpoint = "/v1/completions"


async def complete(service: Service, body: CompletionBody, request: Request) -> Response:
    """Answer one request. Raises Refused or RequestRefused for one that is not served."""
    service.served.check_model(body.model)
    check_constraints(body.bad_words, body.structured_outputs, body.repetition_detection)
    refuse_unsupported(PATH, body.given())
    asked = await service.worker.run(await size_of(request), lambda: _every_asked(service, body))
    name = response_id("cmpl", request.headers.get("x-request-id"), body.request_id)
    if body.stream:
        stream = _Stream(service, body, asked, name)
        return streamed(lambda: service.flight(body, asked, name), stream.chunks)
    return await answered(request, _whole(service, body, asked, name))


def _every_asked(service: Service, body: CompletionBody) -> list[Asked]:
    return [_asked(service, body, prompt) for prompt in _prompts(service, body)]


def _prompts(service: Service, body: CompletionBody) -> list[Prompt]:
    read = reader(body, _room(service, body), service.backend.tokenizer)
    given = body.prompt
    if isinstance(given, str):
        return [read.from_text(given)]
    if not given:
        raise RequestRefused("the list of prompts is empty")
    if isinstance(given[0], int):
        return [read.from_ids(given)]
    return [read.from_text(prompt) if isinstance(prompt, str) else read.from_ids(prompt) for prompt in given]


def _room(service: Service, body: CompletionBody) -> Room:
    return Room(service.backend.max_model_len, body.max_tokens)


def _asked(service: Service, body: CompletionBody, prompt: Prompt) -> Asked:
    of_prompt = body.logprobs if body.prompt_logprobs is None and body.echo else body.prompt_logprobs
    return service.ask(
        body,
        prompt,
        _room(service, body),
        body.logprobs,
        of_prompt,
        at_least=1 if _only_prompt(body) else None,
    )


def _only_prompt(body: CompletionBody) -> bool:
    """Whether a client wants its prompt back and nothing else; a token is generated all the same, as upstream does."""
    return bool(body.echo) and body.max_tokens == 0


async def _whole(service: Service, body: CompletionBody, asked: Sequence[Asked], name: str) -> Response:
    created = int(time.time())
    completed = await gathered(service.flight(body, asked, name))
    choices = [
        _choice(service, body, asked[position // body.n].prompt, choice)
        for position, choice in enumerate(completed)
    ]
    tokens = usage(
        sum(len(request.prompt.token_ids) for request in asked),
        sum(len(choice.token_ids) for choice in completed),
        whole=True,
    )
    response = Completion(
        id=name,
        created=created,
        model=service.served.names[0],
        choices=choices,
        system_fingerprint=service.served.fingerprint,
        usage=tokens,
    )
    return Response(encode(response), media_type="application/json")


def _choice(service: Service, body: CompletionBody, prompt: Prompt, choice: Completed) -> CompletionChoice:
    echo = bool(body.echo)
    return CompletionChoice(
        index=choice.index,
        text=_echoed(service, body, prompt, choice.text) if echo else choice.text,
        logprobs=_Texts(service, body).logprobs(
            prompt, choice.prompt_logprobs, choice.logprobs, choice.text, echo=echo
        ),
        finish_reason=choice.finish_reason,
        stop_reason=choice.stop_reason,
        token_ids=choice.token_ids if body.return_token_ids else None,
        prompt_logprobs=formats.prompt_logprobs(choice.prompt_logprobs, service.backend.tokenizer),
        prompt_token_ids=prompt.token_ids if body.return_token_ids else None,
    )


def _echoed(service: Service, body: CompletionBody, prompt: Prompt, text: str) -> str:
    """Prompt and text, or what of them is wanted; a client that wants ids has the prompt in them."""
    before = "" if body.return_token_ids else service.prompt_text(prompt)
    return before if _only_prompt(body) else before + text


class _Texts:
    """The logprobs of one choice, chunk by chunk; prompt and output are read apart, as upstream reads them."""

    def __init__(self, service: Service, body: CompletionBody) -> None:
        as_ids = bool(body.return_tokens_as_token_ids)
        self._body = body
        self._offset = 0  # characters of output that went before; an echoed prompt does not count
        self._prompt = TokenTexts(service.backend.tokenizer, as_ids=as_ids)
        self._output = TokenTexts(service.backend.tokenizer, as_ids=as_ids)

    def logprobs(
        self,
        prompt: Prompt,
        of_prompt: Sequence[TokenLogprobs | None] | None,
        of_output: Sequence[TokenLogprobs] | None,
        text: str,
        *,
        echo: bool,
    ) -> CompletionLogprobs | None:
        """Logprobs of what a chunk or a response shows: the echoed prompt, and the output unless none is wanted.

        `text` is the output's text that goes with them.
        """
        wanted, offset = self._body.logprobs, self._offset
        self._offset += len(text)
        if wanted is None:
            return None
        rows: list[formats.CompletionRow] = []
        if echo:
            rows.append(formats.unscored_row(prompt.token_ids[0], self._prompt))
            scored = [entry for entry in of_prompt or () if entry is not None]
            rows += [formats.completion_row(entry, wanted, self._prompt) for entry in scored]
        if not _only_prompt(self._body):
            rows += [formats.completion_row(entry, wanted, self._output) for entry in of_output or ()]
        return formats.completion_logprobs(rows, offset)


class _Stream:
    """One streamed response: what has been said of each choice so far."""

    def __init__(self, service: Service, body: CompletionBody, asked: Sequence[Asked], name: str) -> None:
        self._service = service
        self._body = body
        self._asked = asked
        self._head = CompletionChunk(
            id=name, created=int(time.time()), model=service.served.names[0], choices=[]
        )
        self._usage, self._every_usage = wants_usage(body)
        self._counts: dict[int, int] = {}
        self._texts: dict[int, _Texts] = {}

    async def chunks(self, flight: Flight) -> AsyncIterator[CompletionChunk]:
        """Raises Refused when generation fails."""
        async with flight:
            async for piece in paced(flight.pieces(), self._body.stream_interval or 1):
                chunk = self._chunk(piece)
                if chunk is not None:
                    yield chunk
        if self._usage:
            prompts = sum(len(request.prompt.token_ids) for request in self._asked)
            yield msgspec.structs.replace(
                self._head,
                usage=usage(prompts, sum(self._counts.values())),
                system_fingerprint=self._service.served.fingerprint,
            )

    def _chunk(self, piece: TextOutput) -> CompletionChunk | None:
        prompt = self._asked[piece.index // self._body.n].prompt
        first = piece.index not in self._counts
        if first and not piece.text and not piece.token_ids and piece.finish_reason is None:
            return None
        self._counts[piece.index] = self._counts.get(piece.index, 0) + len(piece.token_ids)
        chunk = msgspec.structs.replace(self._head, choices=[self._choice(piece, prompt, first)])
        if piece.finish_reason is not None and not self._usage:
            chunk = msgspec.structs.replace(chunk, system_fingerprint=self._service.served.fingerprint)
        if self._every_usage:
            so_far = usage(len(prompt.token_ids), self._counts[piece.index])
            chunk = msgspec.structs.replace(chunk, usage=so_far)
        return chunk

    def _choice(self, piece: TextOutput, prompt: Prompt, first: bool) -> CompletionChunkChoice:
        body = self._body
        echo = bool(body.echo) and first
        if piece.index not in self._texts:
            self._texts[piece.index] = _Texts(self._service, body)
        logprobs = self._texts[piece.index].logprobs(
            prompt, piece.prompt_logprobs, piece.logprobs, piece.text, echo=echo
        )
        return CompletionChunkChoice(
            index=piece.index,
            text=_echoed(self._service, body, prompt, piece.text) if echo else piece.text,
            logprobs=logprobs,
            finish_reason=piece.finish_reason,
            stop_reason=piece.stop_reason,
            prompt_token_ids=prompt.token_ids if first and (echo or body.return_token_ids) else None,
            token_ids=piece.token_ids if body.return_token_ids else None,
        )
