"""How a failure tells a server's own end."""

from __future__ import annotations

import pytest

from parity.observation import Ended
from parity.serve.target import own_end


class Gone:
    base_url = "http://127.0.0.1:1"
    model = "tiny-opt"

    def __init__(self, code: int | None, words: str) -> None:
        self._ended = Ended("alive" if code is None else "exited", code, 0)
        self._words = words

    def alive(self) -> bool:
        return False

    def signal(self, name: str) -> None:
        raise AssertionError(name)

    def wait(self, seconds: float) -> Ended:
        assert seconds > 0
        return self._ended

    def last_words(self) -> str:
        return self._words


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (
            -9,
            "one\ntwo",
            "was killed by SIGKILL, and the script had sent it no signal; its last words:\none\ntwo",
        ),
        (
            139,
            " \n",
            "ended by itself with status 139, and the script had sent it no signal; it wrote nothing",
        ),
        (None, "", "is ending, and the script had sent it no signal; it wrote nothing"),
    ],
)
def test_an_end_is_told_by_its_status_or_signal_and_the_tail_of_the_log(
    code: int | None, words: str, said: str
) -> None:
    assert own_end(Gone(code, words)) == said
