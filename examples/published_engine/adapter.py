"""wicky-vllm 0.1.6 behind JSON lines: its scheduler and its block manager as they come from PyPI, stepped from outside.

Nothing of it is changed. Its package is only given a name to be imported under, because importing it whole takes a
GPU's kernels, and the five settings that its scheduler reads stand in for its configuration, which takes a model.
It has no start-up arithmetic that could run here, so level plan is not offered and `plan` is not shown.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
import types
from typing import Any

PACKAGE = "wickyvllm"
STEP = "scheduled new resumed preempted cached blocks free running waiting finished free_after"
SHOWN = [f"steps.{name}" for name in STEP.split(" ")] + ["end.kind", "end.error", "end.outputs"]
CAN = ["forced-tokens", "prefix-caching", "step-trace"]


def import_scheduler() -> tuple[Any, Any, Any]:
    """Its scheduler module, its sequence class and its sampling parameters, without its package's own imports."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("wicky-vllm is not installed: run `make setup-examples`")
    package = types.ModuleType(PACKAGE)
    package.__path__ = list(found.submodule_search_locations)
    config = types.ModuleType(f"{PACKAGE}.config")
    config.Config = types.SimpleNamespace  # type: ignore[attr-defined]
    sys.modules |= {PACKAGE: package, config.__name__: config}
    from wickyvllm.engine.scheduler import Scheduler
    from wickyvllm.engine.sequence import Sequence
    from wickyvllm.sampling_params import SamplingParams

    return Scheduler, Sequence, SamplingParams


Scheduler, Sequence, SamplingParams = import_scheduler()


class Timeline:
    """One scenario on a scheduler of its own."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        config, timeline = scenario["config"], scenario["timeline"]
        self.requests = timeline["requests"]
        self.max_steps = timeline["max_steps"]
        Sequence.block_size = config["block_size"]
        self.scheduler = Scheduler(
            types.SimpleNamespace(
                max_num_seqs=config["max_num_seqs"],
                max_num_batched_tokens=config["max_num_batched_tokens"],
                eos=-1,
                num_kvcache_blocks=config["num_blocks"] - 1,  # it has no placeholder among its blocks
                kvcache_block_size=config["block_size"],
            )
        )
        self.sequences: dict[str, Any] = {}
        self.started: set[str] = set()

    def play(self, emit: Any) -> dict[str, Any]:
        kind, error = "limit", None
        for number in range(self.max_steps):
            self.arrive(number)
            try:
                emit(self.step())
            except Exception as fault:  # noqa: BLE001 - what the engine raises is what it does
                kind, error = "error", type(fault).__name__
                break
            if self.scheduler.is_finished() and all(asked["at"] <= number for asked in self.requests):
                kind = "done"
                break
        return {
            "kind": kind,
            "error": error,
            "outputs": [[asked["id"], self.got(asked)] for asked in self.requests],
        }

    def arrive(self, number: int) -> None:
        for asked in self.requests:
            if asked["at"] == number:
                sampling = SamplingParams(max_tokens=asked["max_tokens"], ignore_eos=True)
                sequence = self.sequences[asked["id"]] = Sequence(asked["prompt"], sampling)
                sequence.name, sequence.output = asked["id"], asked["output"]
                self.scheduler.add(sequence)

    def got(self, asked: dict[str, Any]) -> int:
        sequence = self.sequences.get(asked["id"])
        return 0 if sequence is None else sequence.num_completion_tokens

    def step(self) -> dict[str, Any]:
        """One step; like its own engine it is not asked to schedule while it has nothing."""
        scheduler = self.scheduler
        before = names(scheduler.running)
        scheduled, is_prefill = ([], True) if scheduler.is_finished() else scheduler.schedule()
        admitted = [sequence for sequence in scheduled if sequence.name not in before]
        step = {
            "scheduled": [
                [item.name, len(item) - item.num_cached_tokens if is_prefill else 1] for item in scheduled
            ],
            "new": [item.name for item in admitted if item.name not in self.started],
            "resumed": [item.name for item in admitted if item.name in self.started],
            # It puts each that it preempts to the front of the queue, so the last one is the first there.
            "preempted": [name for name in reversed(names(scheduler.waiting)) if name in before],
            "cached": [[item.name, item.num_cached_tokens] for item in admitted],
            "blocks": [[item.name, list(item.block_table)] for item in scheduler.running],
            "free": len(scheduler.block_manager.free_block_ids),
            "running": names(scheduler.running),
            "waiting": names(scheduler.waiting),
        }
        self.started.update(item.name for item in admitted)
        scheduler.postprocess(scheduled, [item.output[item.num_completion_tokens] for item in scheduled])
        ended = [[item.name, "length", None] for item in scheduled if item.is_finished]
        return step | {"finished": ended, "free_after": len(scheduler.block_manager.free_block_ids)}


def names(sequences: Any) -> list[str]:
    return [sequence.name for sequence in sequences]


def write(seq: Any, **body: Any) -> None:
    print(json.dumps({"seq": seq, **body}), flush=True)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        answer = functools.partial(write, asked["seq"])
        if asked["op"] == "hello":
            hello = {"name": "wicky-vllm", "version": "0.1.6", "levels": ["schedule"]}
            answer(hello=hello | {"capabilities": CAN, "observes": {"schedule": SHOWN}})
        elif asked["op"] == "run":
            end = Timeline(asked["scenario"]).play(lambda step, to=answer: to(step=step))
            answer(end={"end": end})
        else:
            answer(stopped=True)
            break


if __name__ == "__main__":
    main()
