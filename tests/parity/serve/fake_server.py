"""A server in the shape of the real ones, up in a tenth of a second, with one vice a flag.

    python fake_server.py PORT [VICE] [FILE]

Its helper, where it has one, is a process that took a session of its own and ignores every signal that can be ignored.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

DEAF = (
    "import os, signal, time\n"
    "os.setsid()\n"
    "for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(n, signal.SIG_IGN)\n"
    "print(os.getpid(), flush=True)\n"
    "time.sleep(600)\n"
)
vice = sys.argv[2] if len(sys.argv) > 2 else "none"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if vice == "drips":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"x-more: 1\r\n")
                time.sleep(0.05)
        if vice == "hangs in scripts" and self.path == "/metrics":
            print("asked for its load", flush=True)
            time.sleep(600)
        if vice == "ignores a flag" and self.path == "/metrics":
            self._send(200, b'vllm:cache_config_info{block_size="32",num_gpu_blocks="64"} 1.0\n')
            return
        self._answer(503 if "never ready" in vice else 200, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        print("asked for", body.decode(), flush=True)
        if vice == "dies at the first request":
            os._exit(7)
        if vice == "silent":
            time.sleep(600)
        self._answer(500 if vice == "refuses" else 200, {"error": "no engine"})
        if vice == "dies later":
            threading.Timer(0.3, os._exit, (5,)).start()

    def _answer(self, status: int, body: object) -> None:
        self._send(status, json.dumps(body).encode())

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def on_term(_number: int, _frame: object) -> None:
    print("told to end", flush=True)
    if "deaf" not in vice:
        os._exit(0)


def helper(note: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    note.write_text(process.stdout.readline())


def main() -> None:
    print(
        "\x1b[31mstarting\x1b[0m", *sys.argv[1:], os.environ.get("FAKE", ""), os.environ["TMPDIR"], flush=True
    )
    if vice == "dies at start":
        print("no weights", file=sys.stderr)
        raise SystemExit(3)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_term)
    if vice == "binds late":
        time.sleep(1.0)
    if vice == "leaves a helper":
        helper(Path(sys.argv[3]))
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
