"""A work log shows edits after the fact, and a teacher runs it again from its file alone."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer import course
from explorer.course import prediction
from explorer.course.__main__ import main
from explorer.course.log_chain import MOST_BYTES, verify_log
from explorer.course.log_entry import MOST_TEXT, hash_of
from explorer.course.rerun import CONFIRMED, CONTRADICTED, OPEN, agreement_of, rerun
from explorer.course.worklog import WorkLog
from explorer.course.worklog_template import RUBRIC, template
from explorer.errors import BadOption, SnapshotError
from explorer.measure.compare import NONE
from widgets.session.session import Session

SHORT = 0.02  # seconds
worklog_module = sys.modules[WorkLog.__module__]  # `course.worklog` is the function

# Fields of a measurement, and of its comparison.
TIMED: dict[str, Any] = {
    **dict.fromkeys(("program", "model", "digest", "target", "stage", "machine"), "x"),
    **{"options": {}, "code": [], "sizes": {}, "runs": 8},
    **{"median_us": 2.0, "low_us": 1.0, "high_us": 2.5},
}
RATIO = {
    **{"ratio": 1.5, "low": 1.2, "high": 1.7},
    **{"against": 1, "against_us": 3.0, "verdict": "faster"},
}


@pytest.fixture(scope="module")
def default() -> Any:
    return explorer.compile("zoo:small_nerf")


@pytest.fixture(scope="module")
def changed(default: Any) -> Any:
    return default.with_options(rammer=replace(default.options.rammer, policy="op-by-op"))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No prediction goes to a log of another test, nor into the folder."""
    monkeypatch.setenv(prediction.LOG_VARIABLE, "")
    yield
    prediction.listeners.clear()


def texts(path: Path) -> Path:
    """A log of five hypotheses."""
    log = WorkLog(path)
    for n in range(5):
        log.hypothesis(f"claim {n}")
    return path


def rehashed(line: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A line with other values and the hash that fits them, as a forger writes it."""
    part = {k: v for k, v in (line | more).items() if k != "hash"}
    return {**part, "hash": hash_of(part)}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_a_log_has_claims_predictions_choices_times_and_a_conclusion(
    default: Any, changed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    log = course.worklog(path)
    log.hypothesis("Scheduling op by op makes small_nerf slower.")
    course.reveal(course.predict("How many kernels?", 4), lambda: len(default.kernels))
    inputs = default.random_inputs()
    first = log.measure(default, inputs, seconds=SHORT)
    choice = log.decision("op by op", changed)
    second = log.measure(changed, inputs, seconds=SHORT)
    log.conclusion("The verdict of the entry.", evidence=[second.n])
    kinds = [e.kind for e in log.entries]
    assert kinds == [
        *("begin", "hypothesis", "predicted", "revealed", "measurement"),
        *("decision", "measurement", "conclusion"),
    ]
    assert log.entries[3].fields["found"] == len(default.kernels)
    assert "verdict" not in first.fields and second.fields["against"] == first.n
    assert second.fields["verdict"] in ("faster", "slower", NONE)
    assert second.fields["low"] <= second.fields["ratio"] <= second.fields["high"]
    assert second.fields["options"] == {"rammer": {"policy": "op-by-op"}}
    assert choice.fields["program"] == second.fields["program"] != first.fields["program"]
    assert first.fields["options"] == {} and "cores" in first.fields["machine"]
    assert WorkLog(path).entries == log.entries  # what is in the file is all
    capsys.readouterr()
    assert main(["worklog", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "rammer.policy=op-by-op" in printed and log.last_hash in printed


def test_the_teacher_runs_a_log_again_from_its_file(
    default: Any, changed: Any, tmp_path: Path
) -> None:
    path = tmp_path / "mine.jsonl"
    log = WorkLog(path)
    inputs = default.random_inputs()
    log.measure(default, inputs, seconds=SHORT)
    log.decision("op by op", changed)
    log.measure(changed, inputs, seconds=SHORT)
    rows = rerun(verify_log(path).entries, seconds=SHORT)
    assert [row.program for row in rows] == ["same program"] * 3
    assert rows[0].here and not rows[0].claim
    assert rows[2].claim and rows[2].here and rows[2].verdict in (CONFIRMED, OPEN, CONTRADICTED)
    forged = lines(path)
    options = {"options": {"rammer": {"policy": "wavefront"}}}
    forged[2] = rehashed(forged[2], fields=forged[2]["fields"] | options)
    forged[3] = rehashed(forged[3], before=forged[2]["hash"])
    write(path, forged)
    rows = rerun(verify_log(path).entries, seconds=SHORT)
    assert rows[1].program == "another program" and rows[1].refuted


def test_a_forged_ratio_is_contradicted(
    default: Any, changed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    log = WorkLog(path)
    log.measure(default, default.random_inputs(), seconds=SHORT)
    log.measure(changed, default.random_inputs(), seconds=SHORT)
    forged = lines(path)
    claim = {"ratio": 50.0, "low": 49.0, "high": 51.0, "verdict": "faster"}
    forged[2] = rehashed(forged[2], fields=forged[2]["fields"] | claim)
    write(path, forged)
    assert main(["worklog", str(path)]) == 0  # the chain was written anew, so it is sound
    assert main(["worklog", str(path), "--rerun", "--seconds", str(SHORT)]) == 1
    assert CONTRADICTED in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verdict", "low", "high", "expected"),
    [
        ("faster", 1.4, 1.6, CONFIRMED),
        (NONE, 0.9, 1.25, OPEN),
        (NONE, 0.9, 1.1, CONTRADICTED),
        ("slower", 0.4, 0.6, CONTRADICTED),
    ],
)
def test_ratios_agree_by_verdict_and_interval(
    verdict: Any, low: float, high: float, expected: str
) -> None:
    claim: dict[str, Any] = {"verdict": "faster", "low": 1.2, "high": 1.3}
    here: dict[str, Any] = {"verdict": verdict, "low": low, "high": high}
    assert agreement_of(claim, here) == expected


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda r: [*r[:2], {**r[2], "text": "claim 7"}, *r[3:]], "entry 2 was changed"),
        (lambda r: [*r[:2], *r[3:]], "entry 2 is missing: entry 3 stands in its place"),
        (lambda r: [*r[:2], r[3], r[2], *r[4:]], "entry 2 is missing: entry 3"),
        (lambda r: [*r[:2], rehashed(r[2], text="new"), *r[3:]], "entry 2 was replaced"),
        (lambda r: r[1:], "entry 0 is missing"),
        (lambda r: [*r[:3], 7], "entry 3 has not the fields"),
        (lambda r: [*r[:3], rehashed(r[3], n="3")], "n must be of type int"),
        (lambda r: [*r[:3], rehashed(r[3], n=True)], "n must be of type int"),
        (lambda r: [*r[:3], rehashed(r[3], kind="joke")], "there is no kind 'joke'"),
        (lambda r: [*r[:3], rehashed(r[3], text="")], "a text has 1 to"),
        (lambda r: [*r[:3], rehashed(r[3], text="x" * (MOST_TEXT + 1))], "a text has 1 to"),
        (lambda r: [*r[:3], rehashed(r[3], time=-1)], "time must be"),
        (lambda r: [*r[:3], rehashed(r[3], fields={"a": [[[[[[[[[1]]]]]]]]]})], "plain finite"),
        (lambda r: [*r[:3], rehashed(r[3], fields={"a": float("inf")})], "plain finite"),
        (lambda r: [*r[:3], rehashed(r[3], kind="decision")], "program must be of type str"),
        (lambda r: [*r[:3], rehashed(r[3], kind="begin", fields={"version": 1})], "does not fit"),
        (
            lambda r: [
                *r[:3],
                rehashed(r[3], kind="measurement", fields={**TIMED, "low_us": 3.0}),
            ],
            "the median must lie in its interval",
        ),
        (
            lambda r: [
                *r[:3],
                rehashed(r[3], kind="measurement", fields={**TIMED, "verdict": "faster"}),
            ],
            "a ratio, its interval and the other time must be numbers",
        ),
        (
            lambda r: [
                *r[:3],
                rehashed(r[3], kind="measurement", fields=TIMED | RATIO | {"verdict": "best"}),
            ],
            "the verdict must be faster",
        ),
        (
            lambda r: [
                *r[:3],
                rehashed(r[3], kind="measurement", fields=TIMED | RATIO | {"against": 2}),
            ],
            "it names entry 2",
        ),
        (
            lambda r: [*r[:3], rehashed(r[3], kind="conclusion", fields={"evidence": [99]})],
            "it names entry 99",
        ),
    ],
)
def test_the_first_entry_that_is_not_as_written_is_named(
    edit: Callable[[Any], Any], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = texts(tmp_path / "log.jsonl")
    assert not verify_log(path).fault
    write(path, edit(lines(path)))
    found = verify_log(path).fault
    assert fault in found and "\n" not in found
    assert main(["worklog", str(path)]) == 1
    assert fault in capsys.readouterr().out
    before = path.read_bytes()
    with pytest.raises(SnapshotError, match=re.escape(fault)):
        WorkLog(path)
    assert path.read_bytes() == before  # and nothing is appended to it


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\xff\xfe\n", "entry 0 is no JSON"),
        (b"[" * 60_000 + b"\n", "entry 0 is no JSON"),
        (b'{"n": 1, "n": 2}\n', "entry 0 is no JSON of plain values"),
        (b"1" * 5000 + b"\n", "entry 0 is no JSON"),
        (b"x" * 70_000 + b"\n", "entry 0 is larger than 64 KiB"),
        (b" " * (MOST_BYTES + 1), "the file is larger than 4 MiB"),
    ],
)
def test_a_hostile_file_is_a_sentence(data: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    assert verify_log(path).fault.startswith(fault)


def test_a_log_cut_within_a_line_is_told(tmp_path: Path) -> None:
    path = texts(tmp_path / "log.jsonl")
    path.write_bytes(path.read_bytes()[:-1])
    assert verify_log(path).fault == "entry 5 is cut: its line has no end"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"target": "../sheet.toml"}, "names no target"),
        ({"stage": "NOWHERE"}, "names no stage"),
        ({"options": {"rammer": {"policy": 7}}}, "policy"),
        ({"options": {"nothing": {}}}, "the file's options are not of"),
        ({"code": ["roller.policy"]}, "roller.policy is code"),
        ({"digest": "0"}, "is not in the zoo"),
        ({"model": "../secret"}, "is not in the zoo"),
        ({"sizes": {"rows": 1 << 40}}, "takes sizes up to 65,536"),
    ],
)
def test_a_hostile_entry_is_not_run(
    more: dict[str, Any], why: str, default: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    WorkLog(path).measure(default, default.random_inputs(), seconds=SHORT)
    begin, entry = lines(path)
    extra = more if "model" not in more else more | {"digest": "1"}
    write(path, [begin, rehashed(entry, fields=entry["fields"] | extra)])
    (row,) = rerun(verify_log(path).entries, seconds=SHORT)
    assert why in row.reason and not row.program


def test_what_cannot_be_evidence_is_refused(default: Any, tmp_path: Path) -> None:
    log = WorkLog(tmp_path / "log.jsonl")
    claim = log.hypothesis("It is faster.")
    for evidence in ([], [claim.n], [17], [True]):
        with pytest.raises(BadOption, match=r"evidence|rests on"):
            log.conclusion("So it is.", evidence=evidence)
    with pytest.raises(BadOption, match="entry 1 is no measurement of small_nerf"):
        log.measure(default, default.random_inputs(), against=claim.n)
    assert len(log.entries) == 2
    with pytest.raises(BadOption, match="1 to 4,000 characters"):
        log.hypothesis(" ")


def test_an_earlier_measurement_of_another_process_is_compiled_again(
    default: Any, changed: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    WorkLog(path).measure(default, default.random_inputs(), seconds=SHORT)
    entry = WorkLog(path).measure(changed, default.random_inputs(), seconds=SHORT)
    assert entry.fields["against"] == 1


def test_two_kernels_write_one_chain(tmp_path: Path) -> None:
    first, second = WorkLog(tmp_path / "log.jsonl"), WorkLog(tmp_path / "log.jsonl")
    for n in range(3):
        first.hypothesis(f"first {n}")
        second.hypothesis(f"second {n}")
    assert len(first.entries) == 7 and not verify_log(first.path).fault


def test_a_log_stays_small_enough_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WorkLog(tmp_path / "log.jsonl")
    log.hypothesis("x" * MOST_TEXT)
    monkeypatch.setattr(worklog_module, "MOST_BYTES", 8000)
    with pytest.raises(BadOption, match="takes 2,000 entries of 64 KiB"):
        log.hypothesis("x" * MOST_TEXT)
    assert len(log.entries) == 2


def test_a_folder_or_a_lost_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="there is no file"):
        WorkLog(tmp_path)
    with pytest.raises(BadOption, match="cannot be written"):
        WorkLog(tmp_path / "nowhere" / "log.jsonl")
    assert main(["worklog", str(tmp_path / "none.jsonl")]) == 2


def test_a_notebook_shows_a_table_without_markup_of_the_student(tmp_path: Path) -> None:
    log = WorkLog(tmp_path / "log.jsonl")
    log.hypothesis("<script>alert(1)</script>")
    shown = log._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "hypothesis" in shown
    assert "background" not in shown  # the colours are the page's, light or dark


def test_a_what_if_session_writes_its_steps(default: Any, tmp_path: Path) -> None:
    log = WorkLog(tmp_path / "log.jsonl")
    session = Session(default, log=log)
    session.answer("measure", {})
    session.turn_to("threads", 1)
    session.answer("measure", {})
    session.answer("undo", {})
    kinds = [e.kind for e in log.entries]
    assert kinds == ["begin", "measurement", "what-if", "measurement", "move"]
    assert log.entries[2].text.startswith("threads") and log.entries[4].text.startswith("Undone")
    assert log.entries[3].fields["against"] == 1
    rows = rerun(log.entries, seconds=SHORT)
    assert [row.program for row in rows] == ["same program"] * 3


def test_the_template_has_every_level_with_an_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "assignment.md"
    assert main(["worklog", "--template", str(path)]) == 0
    assert path.read_text("utf-8") == template()
    assert [c.name for c in RUBRIC] == ["hypothesis", "evidence", "conclusion"]
    for criterion in RUBRIC:
        assert [level.points for level in criterion.levels] == [3, 2, 1, 0]
        for level in criterion.levels:
            assert level.condition in template() and level.example in template()
    assert main(["worklog", "--template", str(path)]) == 2  # it is not overwritten
    assert main(["worklog"]) == 2
    assert "--template" in capsys.readouterr().err


def test_twenty_graded_logs_show_every_level_of_the_rubric() -> None:
    """Two graders with the rubric alone agree on them: docs/how_to/worklog.md says how far."""
    rows = json.loads((Path(__file__).parent / "graded_worklogs.json").read_text("utf-8"))
    assert len({row["name"] for row in rows}) == 20
    for at, criterion in enumerate(RUBRIC):
        points = {level.points for level in criterion.levels}
        for grading in ("first", "second"):
            assert {row[grading][at] for row in rows} == points
    assert all(row["first"] == row["second"] for row in rows)


def test_the_log_of_two_beginnings_has_one_begin(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    assert verify_log(path).fault == "the file is empty: it is no work log"
    log = WorkLog(path)
    log._append("begin", "work log", {"version": 1})  # as by a second kernel at the same time
    assert [e.kind for e in log.entries] == ["begin"]


def test_a_log_is_written_where_files_have_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    log = course.worklog(tmp_path / "log.jsonl")
    log.hypothesis("smaller tiles are slower")
    assert [e.kind for e in log.entries] == ["begin", "hypothesis"]
