"""A zoo of tiny drivers with one vice each, run as `python zoo.py VICE`; the harness must survive them all.

`STATE` in the environment names a file that counts the starts, for vices that only show the first time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

PLAN = {
    "status": "ok",
    "warnings": [],
    "bytes_per_block": 1,
    "num_blocks": 4,
    "usable_blocks": 3,
    "max_model_len": 64,
    "kv_cache_size_tokens": 64,
    "concurrency": [4, 4],
    "concurrency_label": "1.00x",
}
STEP = {
    "aborted": [],
    "reset": [],
    "scheduled": [["r0", 8]],
    "new": ["r0"],
    "resumed": [],
    "preempted": [],
    "cached": [["r0", 0]],
    "evicted": [],
    "blocks": [["r0", [1]]],
    "free": 2,
    "running": ["r0"],
    "waiting": [],
    "aborted_late": [],
    "finished": [["r0", "length", None]],
    "free_after": 3,
}
END = {"kind": "done", "period": None, "error": None, "outputs": [["r0", 1]]}


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def starts() -> int:
    state = Path(os.environ["STATE"])
    count = int(state.read_text()) + 1 if state.exists() else 1
    state.write_text(str(count))
    return count


def main() -> None:
    vice = sys.argv[1]
    start = starts()
    if vice == "dies-at-start":
        print("ImportError: libfoo.so is missing", file=sys.stderr)
        raise SystemExit(3)
    for line in sys.stdin:
        message = json.loads(line)
        seq, operation = message["seq"], message["op"]
        if operation == "hello":
            if vice == "silent-at-start":
                time.sleep(60)
            hello = "nonsense" if vice == "hello-nonsense" else {"name": "zoo", "version": "1", "levels": []}
            say(seq=seq, hello=hello)
        elif operation == "stop":
            say(seq=seq, stopped=True)
            return
        else:
            answer(vice, start, seq, message["scenario"]["level"])


def answer(vice: str, start: int, seq: int, level: str) -> None:
    if (vice == "dies-once" and start == 1) or vice == "dies-always":
        say(seq=seq, step=STEP)
        os._exit(9)
    if vice == "hangs":
        say(seq=seq, step=STEP)
        time.sleep(60)
    if vice == "not-json":
        print("Loading weights: 100%", flush=True)
    if vice == "wrong-seq":
        say(seq=seq + 100, end=PLAN)
    if vice == "driver-error":
        say(seq=seq, error={"kind": "driver", "message": "KeyError: 'config'"})
        return
    if vice == "wrong-shape":
        say(seq=seq, end={"status": "ok", "num_blocks": "four"})
    if vice == "chatty":
        print("a warning on stderr", file=sys.stderr, flush=True)
    if level == "plan":
        say(seq=seq, end=PLAN, seconds=0.25)
    elif vice == "tells-more":
        say(seq=seq, step=STEP, native={"own": [1, 2]})
        say(seq=seq, end={"plan": PLAN, "end": END}, seconds=0.5)
    else:
        say(seq=seq, step=STEP)
        say(seq=seq, end={"plan": PLAN, "end": END}, seconds=0.5)


if __name__ == "__main__":
    main()
