"""What a person reads of served scripts: exchanges side by side, ties, and outcomes that stayed away."""

from __future__ import annotations

from parity.finding import Tie, Verdict
from parity.observation import plain
from parity.report.serve_lines import MAX_CHARACTERS
from parity.report.side_by_side import lines_of, table
from parity.report.terminal import report, ties
from parity.report_json import show_object
from parity.subjects.lens import Lens
from tests.parity.served import answer, choice, completion, folded, listed, lost, serve, streamed, usage
from tests.parity.test_report import found, outcome, result, text

CLEAR = Lens("serve", "exact", frozenset())


def test_an_exchange_has_a_line_for_each_of_its_parts() -> None:
    body = completion(choice(listed((">", -1.5, {})), ">"), tokens=1)
    lines = lines_of(plain(serve(answer(body, headers={"content-type": "application/json"}))))

    assert {path: shown for path, (_, shown) in lines.items()} == {
        "exchanges[0].id": "a",
        "exchanges[0].ending": "answered",
        "exchanges[0].status": "200",
        "exchanges[0].headers": '{"content-type":"application/json"}',
        "exchanges[0].body.object": "text_completion",
        "exchanges[0].body.choices[0].index": "0",
        "exchanges[0].body.choices[0].text": ">",
        "exchanges[0].body.choices[0].logprobs.tokens": '[">"]',
        "exchanges[0].body.choices[0].logprobs.token_logprobs": "[-1.5]",
        "exchanges[0].body.choices[0].logprobs.top_logprobs": '[{">":-1.5}]',
        "exchanges[0].body.choices[0].logprobs.text_offset": "[0]",
        "exchanges[0].body.choices[0].finish_reason": "length",
        "exchanges[0].body.usage": '{"prompt_tokens":6,"completion_tokens":1,"total_tokens":7}',
        "health": "[200]",
        "preempted": "false",
        "after.running": "0",
        "after.waiting": "0",
        "after.cache_in_use": "false",
    }


def test_a_stream_is_shown_as_its_frames_are_joined() -> None:
    observed = serve(answer(None, stream=streamed(folded(), rest=[{"usage": usage(6, 3)}, "[DONE]"])))
    lines = lines_of(plain(observed))

    assert lines["exchanges[0].stream.choices[0].kinds"][1] == '["tokens","finish"]'
    assert lines["exchanges[0].stream.choices[0].joined.text"][1] == "> ("
    assert lines["exchanges[0].stream.rest"][1].endswith('},"[DONE]"]')


def test_a_long_answer_is_cut_and_says_how_long_it_is() -> None:
    (shown,) = (
        shown
        for path, (_, shown) in lines_of(plain(serve(answer("x" * 1_000_000)))).items()
        if path == "exchanges[0].body"
    )

    assert shown == "x" * MAX_CHARACTERS + "… (1000000 characters)"


def test_rows_are_in_the_order_of_happening_whichever_side_they_are_on() -> None:
    oracle = serve(lost("silent", "a"), answer(completion(choice()), "b"))
    subject = serve(answer(completion(choice()), "a"), lost("silent", "b"))

    shown = text(table(plain(oracle), plain(subject), None), width=400)
    rows = [row.split()[0] for row in shown.splitlines()[1:]]

    first, second = ([row for row in rows if row.startswith(f"exchanges[{at}]")] for at in (0, 1))
    assert rows == [*first, *second, *rows[-5:]]
    assert [row.partition(".")[2].split(".")[0] for row in first][:4] == ["id", "ending", "status", "body"]
    assert [row.partition(".")[2].split(".")[0] for row in second][:4] == ["id", "ending", "status", "body"]


def test_the_row_that_has_the_first_difference_is_marked() -> None:
    oracle, subject = (
        serve(answer(completion(choice(listed((token, -1.0, {})), token), tokens=1)))
        for token in ("a.b", "c")
    )
    shown = show_object("serving/x", oracle, subject, CLEAR)
    assert shown["first_difference"] == "exchanges[0].body.choices[0].text"

    rows = text(table(plain(oracle), plain(subject), shown["first_difference"])).splitlines()

    assert [row.split()[0] for row in rows if "◀" in row] == [shown["first_difference"]]


def test_a_tie_is_no_first_difference() -> None:
    oracle, subject = (
        serve(answer(completion(choice(listed((one, -1.0, {two: -1.0001})), one), tokens=1)))
        for one, two in (("a", "b"), ("b", "a"))
    )

    assert show_object("serving/x", oracle, subject, CLEAR)["first_difference"] is None


def test_ties_have_one_line_with_the_widest_of_them() -> None:
    tied = (Tie("a", 0, 17, 0.00025), Tie("b", 1, 3, 0.0009))
    one = result("numerics/greedy", Verdict.MATCH)
    results = [type(one)(**{**{f: getattr(one, f) for f in one.__struct_fields__}, "ties": tied})]

    line = ties(results)

    assert line == (
        "ties: 2 choices in 1 scenario went another way where the oracle's two best tokens are nearly equal, and were"
        " compared up to there; the widest gap is 9.0e-04 (numerics/greedy, b, choice 1, token 3)"
    )
    assert line in " ".join(text(report("head", outcome(*results), []), width=400).splitlines())
    assert ties([one]) is None


def test_what_stayed_away_is_told_beside_its_record() -> None:
    hint = "did not show in 2 plays; on record 8 of 20"
    shown = text(
        report("head", outcome(result("a/b", Verdict.COVERED, found(Verdict.COVERED, hint=hint))), [])
    )

    assert '  a/b  end.kind  both "stall"  (did not show in 2 plays; on record 8 of 20)' in shown.splitlines()
