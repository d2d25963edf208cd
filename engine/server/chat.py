"""POST /v1/chat/completions: a conversation through the model's chat template, with n answers; whole or as a stream.

Mirrors vllm/entrypoints/openai/chat_completion/serving.py::OpenAIServingChat for a server without parsers.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from fastapi import Request, Response

from engine.generation import TextOutput
from engine.limits import Room
from engine.outputs import TokenLogprobs
from engine.server import messages
from engine.server.constraints import check_constraints
from engine.server.fields import Endpoint, refuse_unsupported
from engine.server.flights import Flight
from engine.server.logprobs import TokenTexts, chat_logprobs, prompt_logprobs
from engine.server.prompts import reader
from engine.server.requests import ChatBody
from engine.server.responses import (
    Chat,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatLogprobs,
    Delta,
    Message,
    encode,
    usage,
)
from engine.server.service import Asked, Service, gathered, response_id, wants_usage
from engine.server.streaming import answered, paced, streamed
from engine.server.worker import size_of

PATH: Endpoint = "/v1/chat/completions"


class Conversation(msgspec.Struct, frozen=True):
    """What a body's messages come to: the request, the role that answers, and what an echo repeats."""

    asked: Asked
    role: str
    echo: str


async def chat(service: Service, body: ChatBody, request: Request) -> Response:
    """Answer one request. Raises Refused or RequestRefused for one that is not served."""
    service.served.check_model(body.model)
    check_constraints(body.bad_words, body.structured_outputs, body.repetition_detection)
    refuse_unsupported(PATH, body.given())
    messages.refuse_tool_choice(body)
    conversation = await service.worker.run(await size_of(request), lambda: _conversation(service, body))
    name = response_id("chatcmpl", request.headers.get("x-request-id"), body.request_id)
    if body.stream:
        stream = _Stream(service, body, conversation, name)
        return streamed(lambda: service.flight(body, [conversation.asked], name), stream.chunks)
    return await answered(request, _whole(service, body, conversation, name))


def _conversation(service: Service, body: ChatBody) -> Conversation:
    variables = messages.template_variables(body)
    turns = messages.normalised(body.messages)
    tokenizer = service.backend.tokenizer
    text = tokenizer.chat_prompt(
        messages.for_template(turns, knows_developer=tokenizer.knows_developer),
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=body.continue_final_message,
        **variables,
    )
    role = "assistant" if body.add_generation_prompt else str(turns[-1]["role"])
    echo = str(turns[-1]["content"]) if body.echo and turns[-1]["role"] == role else ""
    return Conversation(_asked(service, body, text), role, echo)


def _asked(service: Service, body: ChatBody, text: str) -> Asked:
    wanted = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    param = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    room = Room(service.backend.max_model_len, wanted, param)
    prompt = reader(body, room, service.backend.tokenizer).from_text(text)
    of_prompt = body.top_logprobs if body.prompt_logprobs is None and body.echo else body.prompt_logprobs
    return service.ask(body, prompt, room, body.top_logprobs if body.logprobs else None, of_prompt)


async def _whole(service: Service, body: ChatBody, conversation: Conversation, name: str) -> Response:
    created = int(time.time())
    prompt = conversation.asked.prompt
    completed = await gathered(service.flight(body, [conversation.asked], name))
    choices = [
        ChatChoice(
            index=choice.index,
            message=Message(conversation.role, conversation.echo + choice.text),
            logprobs=_logprobs(body, choice.logprobs, _texts(service, body)),
            finish_reason=choice.finish_reason,
            stop_reason=choice.stop_reason,
            token_ids=choice.token_ids if body.return_token_ids else None,
        )
        for choice in completed
    ]
    response = Chat(
        id=name,
        created=created,
        model=service.served.names[0],
        choices=choices,
        system_fingerprint=service.served.fingerprint,
        usage=usage(len(prompt.token_ids), sum(len(choice.token_ids) for choice in completed), whole=True),
        prompt_logprobs=prompt_logprobs(completed[-1].prompt_logprobs, service.backend.tokenizer),
        prompt_token_ids=prompt.token_ids if body.return_token_ids else None,
        prompt_text=service.prompt_text(prompt) if body.return_prompt_text else None,
    )
    return Response(encode(response), media_type="application/json")


def _texts(service: Service, body: ChatBody) -> TokenTexts:
    return TokenTexts(service.backend.tokenizer, as_ids=bool(body.return_tokens_as_token_ids))


def _logprobs(
    body: ChatBody, entries: Sequence[TokenLogprobs] | None, texts: TokenTexts
) -> ChatLogprobs | None:
    if not body.logprobs or body.top_logprobs is None:
        return None
    return chat_logprobs(entries or (), body.top_logprobs, texts)


class _Stream:
    """One streamed response: first a chunk with the role for each choice, then what the engine adds."""

    def __init__(self, service: Service, body: ChatBody, conversation: Conversation, name: str) -> None:
        self._service = service
        self._body = body
        self._conversation = conversation
        self._head = ChatChunk(id=name, created=int(time.time()), model=service.served.names[0], choices=[])
        self._usage, self._every_usage = wants_usage(body)
        self._num_prompt = len(conversation.asked.prompt.token_ids)
        self._counts = [0] * (1 if body.n is None else body.n)
        self._texts = [_texts(service, body) for _ in self._counts]

    async def chunks(self, flight: Flight) -> AsyncIterator[ChatChunk]:
        """Raises Refused when generation fails."""
        opened = False
        async with flight:
            async for piece in paced(flight.pieces(), self._body.stream_interval or 1):
                if not opened:
                    opened = True
                    for chunk in self._opening():
                        yield chunk
                if piece.text or piece.token_ids or self._counts[piece.index] or piece.finish_reason:
                    yield self._chunk(piece)
        if self._usage:
            yield self._with(
                usage=usage(self._num_prompt, sum(self._counts)),
                system_fingerprint=self._service.served.fingerprint,
            )

    def _opening(self) -> list[ChatChunk]:
        body, prompt = self._body, self._conversation.asked.prompt
        indices = range(len(self._counts))
        chunks = [
            self._with(
                choices=[ChatChunkChoice(index, Delta(role=self._conversation.role, content=""))],
                prompt_token_ids=prompt.token_ids if body.return_token_ids else None,
                prompt_text=self._service.prompt_text(prompt) if body.return_prompt_text else None,
                **self._running_usage(index),
            )
            for index in indices
        ]
        if self._conversation.echo:
            chunks += [
                self._with(
                    choices=[ChatChunkChoice(index, Delta(content=self._conversation.echo))],
                    **self._running_usage(index),
                )
                for index in indices
            ]
        return chunks

    def _chunk(self, piece: TextOutput) -> ChatChunk:
        index = piece.index
        self._counts[index] += len(piece.token_ids)
        finished = piece.finish_reason is not None
        choice = ChatChunkChoice(
            index=index,
            delta=Delta(content=piece.text),
            logprobs=_logprobs(self._body, piece.logprobs, self._texts[index]),
            finish_reason=piece.finish_reason,
            stop_reason=piece.stop_reason if finished else msgspec.UNSET,
            token_ids=piece.token_ids if self._body.return_token_ids else None,
        )
        last = (
            {"system_fingerprint": self._service.served.fingerprint} if finished and not self._usage else {}
        )
        return self._with(choices=[choice], **self._running_usage(index), **last)

    def _running_usage(self, index: int) -> dict[str, Any]:
        """Usage so far, where every chunk is to have it."""
        return {"usage": usage(self._num_prompt, self._counts[index])} if self._every_usage else {}

    def _with(self, **fields: Any) -> ChatChunk:
        return msgspec.structs.replace(self._head, **fields)
