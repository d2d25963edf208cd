"""Our engine behind the protocol of the oracle's driver, at leisure: `python twin_driver.py START_SECONDS PLAY_SECONDS [deaf]`.

A deaf one takes no notice of SIGTERM, and says so by a file of its process's number in the folder that it runs in.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from engine.driver import observe


def main() -> None:
    start, play = map(float, sys.argv[1:3])
    if "deaf" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(f"deaf-{os.getpid()}").touch()
    for line in sys.stdin:
        message = json.loads(line)
        seq, operation = message["seq"], message["op"]
        if operation == "hello":
            time.sleep(start)
            say(seq=seq, hello={"name": "twin", "version": "0.27.1", "model_runner": "v1"})
        elif operation == "stop":
            say(seq=seq, stopped=True)
            return
        else:
            time.sleep(play)
            answer(seq, observe(message["scenario"], {}))


def answer(seq: int, seen: Any) -> None:
    for step in seen.get("steps", ()):
        say(seq=seq, step=step)
    say(seq=seq, end={key: value for key, value in seen.items() if key != "steps"}, seconds=0.0)


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
