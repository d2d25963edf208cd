"""A toy allocator behind JSON lines: paged blocks, first come first served, and nothing else. Standard library only.

It keeps one block back, preempts the newest request when it runs out of blocks, and admits a prompt whole or not at
all. Of upstream it knows nothing; examples/toy-allocator.toml says what of it can be compared.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import deque

PLAN = ["status", "num_blocks", "usable_blocks", "max_model_len"]
SCHEDULED = ["scheduled", "new", "resumed", "preempted", "blocks", "free", "running", "waiting"]
STEP = [*SCHEDULED, "finished", "free_after"]
SEEN = [f"plan.{name}" for name in PLAN] + [f"steps.{name}" for name in STEP] + ["end.kind", "end.outputs"]
HELLO = {"name": "toy-allocator", "version": "1.0", "levels": ["plan", "schedule"]}
HELLO["capabilities"] = ["auto-fit", "forced-tokens", "step-trace"]
HELLO["observes"] = {"plan": PLAN, "schedule": SEEN}


class Sequence:
    def __init__(self, asked):
        self.id = asked["id"]
        self.at = asked["at"]
        self.prompt = len(asked["prompt"])
        self.max_tokens = asked["max_tokens"]
        self.sampled = 0
        self.computed = 0
        self.table = []
        self.was_preempted = False

    def __len__(self):
        return self.prompt + self.sampled


class Toy:
    def __init__(self, config):
        self.size = config["block_size"]
        self.budget = config["max_num_batched_tokens"]
        self.seats = config["max_num_seqs"]
        self.num_blocks = config["num_blocks"]
        self.max_model_len = config["max_model_len"]
        if self.max_model_len == "auto":
            self.max_model_len = min(config["model"]["max_position"], self.num_blocks * self.size)
        self.free = deque(range(1, self.num_blocks))
        self.waiting = deque()
        self.running = []

    def plan(self):
        if not 0 < -(-self.max_model_len // self.size) <= self.num_blocks:
            return {"status": "error"}
        plan = {"status": "ok", "num_blocks": self.num_blocks, "usable_blocks": len(self.free)}
        return plan | {"max_model_len": self.max_model_len}

    def missing(self, sequence):
        return -(-len(sequence) // self.size) - len(sequence.table)

    def take(self, sequence, room):
        """The tokens that are scheduled now, with blocks for them; 0 where they do not fit."""
        tokens = len(sequence) - sequence.computed
        if tokens > room or self.missing(sequence) > len(self.free):
            return 0
        sequence.table += [self.free.popleft() for _ in range(self.missing(sequence))]
        sequence.computed += tokens
        return tokens

    def release(self, sequence):
        self.free.extend(reversed(sequence.table))
        sequence.table, sequence.computed = [], 0

    def schedule(self):
        scheduled, preempted, room = {}, [], self.budget
        for sequence in list(self.running):
            while sequence in self.running and not (tokens := self.take(sequence, room)):
                last = self.running.pop()
                self.release(last)
                room += scheduled.pop(last.id, 0)
                last.was_preempted = True
                self.waiting.appendleft(last)
                preempted.append(last.id)
            if sequence in self.running:
                scheduled[sequence.id] = tokens
                room -= tokens
        new, resumed = [], []
        while self.waiting and not preempted and len(self.running) < self.seats:
            if not (tokens := self.take(self.waiting[0], room)):
                break
            sequence = self.waiting.popleft()
            (resumed if sequence.was_preempted else new).append(sequence.id)
            self.running.append(sequence)
            scheduled[sequence.id] = tokens
            room -= tokens
        step = {"scheduled": list(scheduled.items()), "new": new, "resumed": resumed, "preempted": preempted}
        step |= {"blocks": [[item.id, item.table[:]] for item in self.running], "free": len(self.free)}
        queues = {"running": self.running, "waiting": self.waiting}
        return step | {name: [item.id for item in queue] for name, queue in queues.items()}

    def update(self):
        finished = []
        for sequence in list(self.running):
            sequence.sampled += 1
            if sequence.sampled == sequence.max_tokens or len(sequence) == self.max_model_len:
                finished.append([sequence.id, "length", None])
                self.running.remove(sequence)
                self.release(sequence)
        return {"finished": finished, "free_after": len(self.free)}


def play(scenario, emit):
    toy, timeline = Toy(scenario["config"]), scenario["timeline"]
    plan = toy.plan()
    if timeline is None:
        return plan
    sequences = [Sequence(asked) for asked in timeline["requests"]]
    kind, idle = "refused" if plan["status"] == "error" else "limit", 0
    for number in range(timeline["max_steps"] if kind == "limit" else 0):
        toy.waiting.extend(item for item in sequences if item.at == number)
        step = toy.schedule()
        emit(step | toy.update())
        pending = any(item.at > number for item in sequences)
        idle = 0 if step["scheduled"] or pending else idle + 1
        if idle == 2 or not (toy.running or toy.waiting or pending):
            kind = "stall" if idle == 2 else "done"
            break
    return {"plan": plan, "end": {"kind": kind, "outputs": [[item.id, item.sampled] for item in sequences]}}


def write(seq, **body):
    print(json.dumps({"seq": seq, **body}), flush=True)


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        write_back = functools.partial(write, asked["seq"])
        if asked["op"] == "hello":
            write_back(hello=HELLO)
        elif asked["op"] == "run":
            write_back(end=play(asked["scenario"], lambda step, to=write_back: to(step=step)))
        else:
            write_back(stopped=True)
            break


if __name__ == "__main__":
    main()
