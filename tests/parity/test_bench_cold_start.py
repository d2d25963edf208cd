"""The time to a first token is a time only if the token came and the stream ended as it should."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from parity.bench.cold_start import first_token
from parity.bench.side import SideFailed

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
STATUS, BODY = {status}, {body!r}
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(STATUS)
        self.end_headers()
        self.wfile.write(BODY.encode())
time.sleep(0.3)
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""
CHUNK = 'data: {"choices": [{"text": "a", "finish_reason": %s}]}\n\n'
DONE = "data: [DONE]\n\n"


def knock(tmp_path: Path, script: str, patience: float = 30) -> float:
    return first_token("fake", [sys.executable, "-c", script], tmp_path, os.environ, "m", patience)


def test_the_time_counts_from_the_start_of_the_process(tmp_path: Path) -> None:
    seconds = knock(tmp_path, SERVER.format(status=200, body=CHUNK % '"length"' + DONE))

    assert seconds > 0.3  # the server sleeps that long before it listens


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, "no such model", "fake answered 400: no such model"),
        (200, DONE, "request fake was silent"),
        (200, CHUNK % "null" + DONE, "request fake was silent: it never ended"),
        (200, CHUNK % '"abort"' + DONE, "request fake ended by abort"),
        (200, CHUNK % '"length"' + 'data: {"error": {"code": 500}}\n\n', "request fake failed"),
    ],
)
def test_a_stream_that_is_not_whole_makes_no_time(
    tmp_path: Path, status: int, body: str, reason: str
) -> None:
    with pytest.raises(SideFailed, match=reason):
        knock(tmp_path, SERVER.format(status=status, body=body))


def test_a_server_that_ends_says_why(tmp_path: Path) -> None:
    with pytest.raises(SideFailed, match="fake ended with 1; its last words: no weights"):
        knock(tmp_path, "import sys; sys.exit('no weights')")


def test_a_server_that_never_listens_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with pytest.raises(SideFailed, match=r"fake had no token within 0\.3 s"):
        knock(tmp_path, "import time; time.sleep(60)", patience=0.3)
