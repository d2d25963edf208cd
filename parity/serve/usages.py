"""On which frames of a stream a usage stood, and whether what the usages tell can be.

A usage of every frame or of none does not depend on how tokens are merged. Where only some frames have one, which ones
is told as it was.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


class Usages:
    """Collects frames in order; `verdict` is `Stream.usage`."""

    def __init__(self) -> None:
        self._stood: list[
            tuple[bool, str]
        ] = []  # runs of frames of choices: whether they had one, their kinds
        self._by_choice: dict[int, int] = {}  # completion tokens that a choice's last usage tells
        self._alone: list[int | None] = []  # completion tokens of usages without choices
        self._decreasing = False

    @property
    def total(self) -> int | None:
        """The completion tokens that the stream is billed with at its end."""
        total = self._alone[-1] if self._alone else None
        return total if type(total) is int else None

    def alone(self, frame: Object) -> None:
        if frame.get("usage") is not None:
            self._alone.append(_tokens(frame["usage"]))

    def on_choices(self, indices: list[int], kinds: list[str], frame: Object) -> None:
        usage = frame.get("usage")
        run = (usage is not None, "+".join(dict.fromkeys(kinds)) or "tokens")
        if self._stood[-1:] != [run]:
            self._stood.append(run)
        tokens = _tokens(usage)
        if tokens is not None and len(indices) == 1:
            self._decreasing |= tokens < self._by_choice.get(indices[0], 0)
            self._by_choice[indices[0]] = tokens

    def verdict(self) -> str:
        if self._decreasing:
            return "decreasing"
        if self._by_choice and self._alone and self._alone[-1] != sum(self._by_choice.values()):
            return "unequal"
        had = [stood for stood, _ in self._stood]
        if any(had) and not all(had):
            runs = (f"{'with' if stood else 'without'} {kinds}" for stood, kinds in self._stood)
            return f"some: {', '.join(runs)}"
        if any(had):
            return "every" if self._alone else "choices"
        return "last" if self._alone else "none"


def _tokens(usage: Any) -> int | None:
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) else None
