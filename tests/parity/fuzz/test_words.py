"""A finding's shape in words: a title that can be edited, and the family where people would look for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from parity.fuzz.words import family_of, slug_of, title_of
from tests.parity.test_titles import CLAIMS

RESUMED = "schedule|ours|update|steps[*].free_after|less|-|resume|-"
STALL = "schedule|mirrored|end:stall|end|broken|preempted|preempt+stall|terminates"
ADMITTED = "schedule|ours|schedule|steps[*].scheduled|longer|waiting/new|-|-"
FITTED = "plan|ours|plan:ok|max_model_len|greater|-|-|serves-advertised-length"
COUNTED = "plan|ours|plan:ok|num_blocks|greater|-|-|-"
LEFT = "serve|ours|answered:2xx|exchanges[*].body.choices[*].logprobs.token_logprobs[*]|less|chat|-|-"
ENDED = "serve|ours|end:alive/end:exited|ended.code|differs|-|signal|-"


def document(level: str = "schedule", **config: Any) -> dict[str, Any]:
    return {"level": level, "config": {"model": "tiny-opt", **config}}


@pytest.mark.parametrize(
    ("shape", "title"),
    [
        (
            RESUMED,
            "a difference in free blocks after the update (less than in upstream), when a request resumes",
        ),
        (
            STALL,
            "both sides break terminates, seen in how it ends, when a request is preempted and nothing is scheduled",
        ),
        (
            ADMITTED,
            "a difference in what is scheduled (longer than in upstream), of a request that is waiting in upstream and new here",
        ),
        (
            FITTED,
            "a difference in the length that is advertised (greater than in upstream), and serves-advertised-length is broken",
        ),
    ],
)
def test_the_title_says_what_differs_how_and_when(shape: str, title: str) -> None:
    assert title_of(shape) == f"Found by a hunt: {title}"


@pytest.mark.parametrize("shape", [RESUMED, STALL, ADMITTED, FITTED, COUNTED, LEFT, ENDED])
def test_no_title_makes_a_claim_that_nobody_checked(shape: str) -> None:
    assert [claim for claim in CLAIMS if re.search(claim, title_of(shape))] == []


@pytest.mark.parametrize(
    ("shape", "of", "family"),
    [
        (RESUMED, document(), "preemption"),
        (STALL, document(), "preemption"),
        ("schedule|ours|schedule|steps[*].cached[*][1]|less|new|-|-", document(), "caching"),
        ("schedule|ours|schedule|steps[*].blocks[*][1]|less|new|hit|-", document(), "caching"),
        (ADMITTED, document(), "admission"),
        (ADMITTED, document(max_num_batched_tokens=16), "chunking"),
        (FITTED, document("plan"), "auto-fit"),
        (FITTED, document("plan", max_model_len=64), "block-count"),
        (COUNTED, document("plan"), "block-count"),
        ("schedule|ours|plan:ok|plan.num_blocks|less|-|-|-", document(), "block-count"),
        (LEFT, document("serve"), "numerics"),
        (ENDED, document("serve"), "shutdown"),
        ("serve|ours|answered:2xx|exchanges[*].status|differs|chat|-|-", document("serve"), "serving"),
    ],
)
def test_the_family_is_where_people_would_look(shape: str, of: dict[str, Any], family: str) -> None:
    assert family_of(shape, of) == family


def test_the_name_tells_the_finding_from_its_like() -> None:
    assert slug_of(RESUMED, "f1:0123456789abcdef") == "free-after-less-resume-012345"
    assert slug_of(STALL, "f1:0123456789abcdef") == "end-terminates-preempt-stall-012345"


def test_a_side_that_failed_is_told_in_its_own_words() -> None:
    line = "the subject failed: engine: no end within 20 s"

    assert title_of(line) == f"Found by a hunt: {line}"
    assert slug_of(line, "void:subject") == "void-subject"
    assert family_of(line, document()) == "admission"
