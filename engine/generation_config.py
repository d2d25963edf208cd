"""A generation config, the model's or the operator's, with the operator's values over it: sampling defaults and EOS ids.

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
SOURCE_FLAG = "--generation-config"
OF_MODEL = "auto"
NEUTRAL = "vllm"  # upstream's word for: no sampling defaults
FILE = "generation_config.json"
INHERITED = ("eos_token_id", "max_new_tokens")  # what config.json stands in for where there is no such file
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


def read(folder: Path, override: Mapping[str, Any], source: str = OF_MODEL) -> GenerationConfig:
    """The config in force for the model in `folder`; `source` is `auto`, `vllm` or the folder of another config.

    Of an operator's folder max_new_tokens is a ceiling as well, of the model's own only a default; `vllm` leaves the
    model's EOS ids in force, and no override touches them. Raises UsageError for what the operator gave, ModelError for the
    model's own; what `override` replaces is not looked at. Mirrors vllm/config/model.py::ModelConfig.get_diff_sampling_param,
    ::ModelConfig.try_get_generation_config and OpenAIServingCompletion.override_max_tokens.
    """
    check_override(override)
    path, given = _source(folder, source)
    read_from_it = ("eos_token_id",) if source == NEUTRAL else FIELDS
    own = {name: given[name] for name in read_from_it if given.get(name) is not None}
    for name, value in own.items():
        fault = _fault(name, value)
        if fault is not None and (name == "eos_token_id" or name not in override):
            raise ModelError(f"{path}: {fault}", hint=_way_out(name))
    values = own | {name: value for name, value in override.items() if name != "eos_token_id"}
    defaults = {
        ours: kind(values[theirs])
        for theirs, (ours, kind) in SAMPLING_DEFAULTS.items()
        if values.get(theirs) is not None
    }
    eos = values.get("eos_token_id")
    of_operator = override if source in (OF_MODEL, NEUTRAL) else values
    return GenerationConfig(
        defaults=defaults,
        eos_token_ids=tuple(eos) if isinstance(eos, list) else () if eos is None else (int(eos),),
        ceiling=of_operator.get("max_new_tokens"),
    )


def without_effect(override: Mapping[str, Any]) -> list[str]:
    """What of an override is taken and changes nothing, a sentence each."""
    if "eos_token_id" not in override:
        return []
    return [
        f"{FLAG} has an eos_token_id, which changes nothing (mirrored behaviour): "
        f"a folder for {SOURCE_FLAG} can hold one"
    ]


def _source(model: Path, source: str) -> tuple[Path, Mapping[str, Any]]:
    """The file that is read and what it says."""
    folder = model if source in (OF_MODEL, NEUTRAL) else Path(source)
    path, instead = folder / FILE, folder / "config.json"
    if source and path.is_file():
        return path, read_json(path)
    if source and instead.is_file():
        config = read_json(instead)
        return instead, {name: config[name] for name in INHERITED if name in config}
    raise UsageError(
        f"{SOURCE_FLAG} {source!r}: there is no {path}",
        hint=f"name a folder that has one, {OF_MODEL} or {NEUTRAL}",
    )


def _way_out(name: str) -> str:
    if name == "eos_token_id":
        return f"mend it, or take another config with {SOURCE_FLAG}"
    return f"mend it, or replace the value with {FLAG}"


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
