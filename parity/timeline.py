"""The requests, aborts and resets of a file as an explicit timeline: stamps given, ids expanded, references checked."""

from __future__ import annotations

import re

from parity.document import Fault, nearest
from parity.form import RequestForm, ScenarioForm
from parity.prompts import expand
from parity.scenario import Abort, Request, Reset, Timeline

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def build_timeline(form: ScenarioForm, vocab_size: int) -> Timeline:
    """The timeline of a schedule scenario. Raises Fault at the key that cannot be."""
    if form.requests is None:
        raise Fault("key 'requests' is missing", hint="level schedule needs at least one request")
    ids = _unique_ids(form.requests)
    for index, abort in enumerate(form.aborts):
        if abort.id not in ids:
            raise Fault(
                f"no request {abort.id!r} to abort", ("aborts", index, "id"), hint=nearest(abort.id, ids)
            )
    for index, request in enumerate(form.requests):
        _check_request(request, index, vocab_size)
    expanded = expand(form.requests, vocab_size)
    stamps = _stamps(form.requests)
    requests = [
        _wire(request, stamp, prompt, output)
        for request, stamp, (prompt, output) in zip(form.requests, stamps, expanded, strict=True)
    ]
    return Timeline(
        requests=requests,
        aborts=[Abort(id=abort.id, at=abort.at, when=abort.when) for abort in form.aborts],
        resets=[Reset(at=reset.at, running=reset.running) for reset in form.resets],
        max_steps=form.max_steps,
    )


def _unique_ids(requests: list[RequestForm]) -> dict[str, int]:
    first: dict[str, int] = {}
    for index, request in enumerate(requests):
        keys = ("requests", index, "id")
        if not _ID.match(request.id):
            raise Fault(f"{request.id!r} is no id", keys, hint="use letters, digits, '.', '_' and '-'")
        if request.id in first:
            raise Fault(f"id {request.id!r} is taken by requests[{first[request.id]}]", keys)
        first[request.id] = index
    return first


def _check_request(request: RequestForm, index: int, vocab_size: int) -> None:
    keys = ("requests", index)
    if request.min_tokens > request.max_tokens:
        raise Fault(
            f"min_tokens {request.min_tokens} is above max_tokens {request.max_tokens}", (*keys, "min_tokens")
        )
    for key, tokens in (
        ("eos_token_id", [] if request.eos_token_id is None else [request.eos_token_id]),
        ("stop_token_ids", request.stop_token_ids),
    ):
        for token in tokens:
            if token >= vocab_size:
                raise Fault(f"id {token} is outside the model's vocabulary of {vocab_size}", (*keys, key))


def _stamps(requests: list[RequestForm]) -> list[int]:
    """Each request's stamp: its own, or its index in order of adding (step, then place in the file)."""
    order = sorted(range(len(requests)), key=lambda index: (requests[index].at, index))
    rank = {index: place for place, index in enumerate(order)}
    return [rank[index] if request.stamp is None else request.stamp for index, request in enumerate(requests)]


def _wire(form: RequestForm, stamp: int, prompt: list[int], output: list[int]) -> Request:
    return Request(
        id=form.id,
        at=form.at,
        arrival=stamp,
        prompt=prompt,
        max_tokens=form.max_tokens,
        min_tokens=form.min_tokens,
        output=output,
        eos_token_id=form.eos_token_id,
        ignore_eos=form.ignore_eos,
        stop_token_ids=form.stop_token_ids,
        priority=form.priority,
        cache_salt=form.cache_salt,
        prompt_logprobs=form.prompt_logprobs,
    )
