"""The nested parts of a body that constrain the output: read here to see what is wrong with them, and what is neutral.

None of them is served (fields.json refuses them), but what upstream refuses as well is refused with its type and param,
and a value that asks for nothing is no reason to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic import Field as F

from engine.sampling import RequestRefused
from engine.server.errors import Refused


class Body(BaseModel):
    """A JSON object whose unknown keys are ignored, as upstream ignores them."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    @property
    def neutral(self) -> bool:
        """Whether this is the same as nothing at all."""
        return False

    def given(self) -> dict[str, Any]:
        """The fields that the client sent, by name, after conversion to their types; neutral objects are left out."""
        sent = {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }
        return {
            name: value for name, value in sent.items() if not (isinstance(value, Body) and value.neutral)
        }


class JsonSchema(Body):
    name: str


class ResponseFormat(Body):
    """Mirrors vllm/entrypoints/openai/engine/protocol.py::AnyResponseFormat."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchema | None = None

    @property
    def neutral(self) -> bool:
        return self.type == "text"


class StructuredOutputs(Body):
    """Mirrors vllm/sampling_params.py::StructuredOutputsParams."""

    json_: str | dict[str, Any] | None = F(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None

    def check(self) -> None:
        """Raises Refused or RequestRefused for what upstream refuses."""
        kinds = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if not kinds:
            raise RequestRefused("structured_outputs has no constraint; leave it out for free output")
        if len(kinds) > 1:
            raise Refused("structured_outputs can have one constraint only", "structured_outputs")
        if self.choice == [] or self.json_object is False:
            raise RequestRefused(f"structured_outputs allows nothing: {kinds[0]} is empty or false")


class RepetitionDetection(Body):
    """Mirrors vllm/sampling_params.py::RepetitionDetectionParams. Patterns of at most 0 tokens are none."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0

    @property
    def neutral(self) -> bool:
        return self.max_pattern_size == 0 and self.min_pattern_size == 0

    def check(self) -> None:
        """Raises RequestRefused for what upstream refuses."""
        if not 0 <= self.min_pattern_size <= self.max_pattern_size:
            raise RequestRefused(
                "repetition_detection needs 0 <= min_pattern_size <= max_pattern_size, got "
                f"{self.min_pattern_size} and {self.max_pattern_size}"
            )
        if self.max_pattern_size > 0 and self.min_count < MIN_REPEATS:
            raise RequestRefused(
                f"repetition_detection needs a min_count of at least {MIN_REPEATS}, got {self.min_count}"
            )


MIN_REPEATS = 2


def check_constraints(
    bad_words: Sequence[str], outputs: StructuredOutputs | None, repetition: RepetitionDetection | None
) -> None:
    """Raise Refused or RequestRefused for what is wrong in itself, as upstream does, whatever is served."""
    if "" in bad_words:
        raise RequestRefused("bad_words cannot contain an empty text")
    if outputs is not None:
        outputs.check()
    if repetition is not None:
        repetition.check()
