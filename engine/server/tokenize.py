"""POST /tokenize and /detokenize: what the model makes of a text or a conversation, and back.

Mirrors vllm/entrypoints/serve/tokenize/serving.py::ServingTokenization. Nothing is checked against the length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import ValidationError, WrapValidator

from engine.server import messages
from engine.server.errors import Refused, invalid_body
from engine.server.requests import DetokenizeBody, TokenizeChatBody, TokenizePromptBody
from engine.server.responses import Tokens
from engine.server.service import Service

Form = TokenizePromptBody | TokenizeChatBody


def _fuller(data: Any, first: Callable[[Any], Form]) -> Form:
    """The form that a body has. Of both, upstream takes the one that more of its keys belong to, and counts those of messages."""
    form = first(data)
    if not (isinstance(data, Mapping) and isinstance(form, TokenizePromptBody) and data.get("messages")):
        return form
    try:
        chat = TokenizeChatBody.model_validate(data)
    except ValidationError:
        return form
    return chat if messages.are_messages(chat.messages) else form


TokenizeBody = Annotated[Form, WrapValidator(_fuller)]


def tokenize(service: Service, body: Form) -> Tokens:
    """Token ids of a prompt, or of the prompt that messages become."""
    service.served.check_model(body.model)
    tokenizer = service.backend.tokenizer
    if isinstance(body, TokenizePromptBody):
        text = body.prompt
    else:
        text = tokenizer.chat_prompt(
            messages.for_template(_turns(body), knows_developer=tokenizer.knows_developer),
            add_generation_prompt=body.add_generation_prompt,
            continue_final_message=body.continue_final_message,
            **messages.template_variables(body),
        )
    token_ids = tokenizer.encode(text, add_special_tokens=body.add_special_tokens)
    return Tokens(
        count=len(token_ids),
        max_model_len=service.backend.max_model_len,
        tokens=token_ids,
        token_strs=tokenizer.tokens(token_ids) if body.return_token_strs else None,
    )


def _turns(body: TokenizeChatBody) -> list[dict[str, Any]]:
    """The messages. Raises Refused that names the prompt: of two forms that a body has neither of, the first is told of."""
    try:
        return messages.normalised(body.messages)
    except Refused as refused:
        raise invalid_body(refused.message, "body.prompt") from None


def detokenize(service: Service, body: DetokenizeBody) -> str:
    """The text of token ids, special tokens included; ids that the tokenizer does not know have none."""
    service.served.check_model(body.model)
    try:
        return service.backend.tokenizer.decode(body.tokens)
    except OverflowError as error:
        raise invalid_body("a token id is larger than any tokenizer's", None) from error
