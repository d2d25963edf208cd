"""A model's generation config with the operator's values over it: sampling defaults, EOS ids, and what cannot be.

Checked before anything is loaded: a default that no request may have would make every request the client's fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import ModelError, UsageError
from engine.sampling import RequestRefused, SamplingParams
from engine.shape import read_json

FLAG = "--override-generation-config"
LONGEST = 2**63 - 1

# Fields that are sampling defaults, their names among ours, and their types.
SAMPLING_DEFAULTS: dict[str, tuple[str, type]] = {
    "repetition_penalty": ("repetition_penalty", float),
    "temperature": ("temperature", float),
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "min_p": ("min_p", float),
    "max_new_tokens": ("max_tokens", int),
}
FIELDS = (*SAMPLING_DEFAULTS, "eos_token_id")


class GenerationConfig(msgspec.Struct, frozen=True):
    """What applies where a client says nothing. `ceiling` is the operator's limit of output tokens."""

    defaults: dict[str, float] = {}
    eos_token_ids: tuple[int, ...] = ()
    ceiling: int | None = None


def read(folder: Path, override: Mapping[str, Any]) -> GenerationConfig:
    """The config in force. Raises UsageError for a value of `override`, ModelError for one of the model's own.

    What `override` replaces is not looked at. Mirrors vllm/config/model.py::ModelConfig.get_diff_sampling_param.
    """
    check_override(override)
    path = folder / "generation_config.json"
    own = read_json(path) if path.is_file() else {}
    for name in FIELDS:
        if name not in override and own.get(name) is not None:
            fault = _fault(name, own[name])
            if fault is not None:
                raise ModelError(f"{path}: {fault}", hint=f"mend it, or replace the value with {FLAG}")
    values = own | dict(override)
    eos = values.get("eos_token_id")
    return GenerationConfig(
        defaults={
            ours: kind(values[theirs])
            for theirs, (ours, kind) in SAMPLING_DEFAULTS.items()
            if values.get(theirs) is not None
        },
        eos_token_ids=tuple(eos) if isinstance(eos, list) else () if eos is None else (int(eos),),
        ceiling=override.get("max_new_tokens"),
    )


def check_override(override: Mapping[str, Any]) -> None:
    """Raise UsageError for a field that there is not, and for a value that no request could have."""
    for name, value in override.items():
        if name not in FIELDS:
            raise UsageError(f"{FLAG} has no {name}", hint=f"it has {', '.join(sorted(FIELDS))}")
        fault = _fault(name, value)
        if fault is not None:
            raise UsageError(f"{FLAG}: {fault}")


def _fault(name: str, value: Any) -> str | None:
    """What is wrong with a field's value, by the rules of a request; null if nothing is."""
    if name == "eos_token_id":
        return _type_fault(name, value, int | list[int], "a token id or a list of them")
    ours, kind = SAMPLING_DEFAULTS[name]
    fault = _type_fault(name, value, kind, "a whole number" if kind is int else "a number")
    if fault is not None:
        return fault
    try:
        SamplingParams(**{ours: kind(value)}).validate(vocab_size=1, max_model_len=LONGEST)
    except RequestRefused as error:
        return str(error).replace("max_tokens", "max_new_tokens")
    return None


def _type_fault(name: str, value: Any, kind: Any, shown: str) -> str | None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return f"{name} must be {shown}, got {value!r}"
    return None
