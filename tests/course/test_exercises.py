"""A reference solution passes, a stub is not attempted, and a wrong answer fails for its reason."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer import course
from explorer.course import checking, grading
from explorer.course.exercise import Check
from explorer.course.exercises import EXERCISES, provenance
from explorer.course.fork_server import HelperServer
from explorer.course.prediction import logged_events
from explorer.errors import BadOption
from explorer.ops import user_operators
from explorer.passes import policy_call, registry
from explorer.process.sandbox import Limits
from tests.course.answers import RIGHT, WRONG, made
from widgets.model import settings
from widgets.rooms import gallery, own_picture

SEED = 11


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What a cell registers is gone afterwards, and the log lies elsewhere."""
    monkeypatch.setenv("IRONWORKS_COURSE_LOG", str(tmp_path / "log.jsonl"))
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())
    monkeypatch.setattr(gallery, "PICTURES", gallery.PICTURES)
    monkeypatch.setattr(own_picture, "_own", own_picture._own.copy())
    yield
    for name in list(user_operators.user_operators()):
        user_operators.forget(name)
    for e in EXERCISES.values():
        if e.policy_name in policy_call.by_system(e.policy_of):
            policy_call.forget(e.policy_of, e.policy_name)


@pytest.fixture(scope="module", autouse=True)
def compiled_before() -> None:
    """Helper processes find the steps of these models done."""
    for model in (*provenance.SMALL, *provenance.LARGER):
        explorer.compile(model, until="planned")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", EXERCISES)
def test_the_worked_solution_has_every_point_and_the_stub_is_not_attempted(
    name: str, tmp_path: Path
) -> None:
    e = EXERCISES[name]
    found = course.grade(name, made(tmp_path, name, e.solution), SEED)
    assert (found.outcome, found.points) == ("passed", e.points), str(found)
    stub = made(tmp_path, name, e.stub)
    outcome = "wrong" if e.activity == "find the fault" else "not attempted"
    assert course.check(name, stub).outcome == outcome
    assert course.grade(name, stub, SEED).points == 0


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "what"), [(name, what) for name in WRONG for what in WRONG[name]])
def test_a_wrong_answer_fails_for_its_reason(name: str, what: str, tmp_path: Path) -> None:
    text, why = WRONG[name][what]
    found = course.check(name, made(tmp_path, name, text))
    assert found.outcome == "wrong" and found.points < found.of
    said = next(r.message for r in found.results if r.outcome == "wrong")
    assert re.search(why, said, re.S), said


@pytest.mark.parametrize(("name", "what"), [(name, what) for name in RIGHT for what in RIGHT[name]])
def test_a_right_answer_of_another_form_has_every_point(
    name: str, what: str, tmp_path: Path
) -> None:
    found = course.grade(name, made(tmp_path, name, RIGHT[name][what]), SEED)
    assert found.points == found.of, str(found)


def test_every_exercise_has_wrong_answers_hints_and_hidden_checks() -> None:
    assert WRONG.keys() == EXERCISES.keys()
    for name, e in EXERCISES.items():
        if e.is_warm_up:
            assert len(WRONG[name]) >= 2 and RIGHT[name] and e.hints and 2 <= e.minutes <= 20
            continue
        assert len(WRONG[name]) >= 5 and len(RIGHT[name]) >= 2 and len(e.hints) == 3
        assert {c.hidden for c in e.checks} == {False, True}


@pytest.mark.parametrize(
    "call",
    [
        "explorer.grad(loss)(x)",
        "explorer.value_and_grad(loss)(x)[1]",
        "explorer.vjp(softmax)(x, g)",
        "explorer.gradients.grad(loss)(x)",
    ],
)
def test_a_gradient_of_the_library_is_no_backward_rule(call: str) -> None:
    head = EXERCISES["vjp"].solution.partition("    e = ")[0]
    text = (
        f"{head}    def softmax(x):\n        e = enp.exp(x - x.max(axis=-1, keepdims=True))\n"
        "        return e / e.sum(axis=-1, keepdims=True)\n\n"
        "    def loss(x):\n        return (softmax(x) * g).sum()\n\n"
        f"    return {call}\n"
    )
    with HelperServer() as server:
        verdict = grading.grade_answer(EXERCISES["vjp"], text, SEED, server)
    assert verdict.points == 0
    assert re.search(r"calls \w+, which is the library's own", verdict.results[0].message)


@pytest.mark.parametrize("name", [e.name for e in EXERCISES.values() if not e.is_warm_up])
def test_half_of_the_points_are_visible_and_no_hidden_check_repeats_a_visible_one(
    name: str,
) -> None:
    checks = EXERCISES[name].checks
    assert 2 * sum(c.points for c in checks if not c.hidden) >= EXERCISES[name].points
    assert len({c.judge for c in checks}) == len(checks)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [e.name for e in EXERCISES.values() if e.policy_of])
def test_a_policy_that_passes_is_a_choice_of_the_house(name: str, tmp_path: Path) -> None:
    e = EXERCISES[name]
    option, words = f"{e.policy_of}.policy", e.policy_name
    course.check(name, made(tmp_path, name, WRONG[name][next(iter(WRONG[name]))][0]))
    assert not policy_call.all_policies()
    said = str(course.check(name, made(tmp_path, name, e.solution)))
    assert said.endswith(
        f"It is {words!r} among the choices of {option} now, in explorers and in options."
    )
    c = explorer.compile("tests/data/tiny_skip.onnx", until="planned")
    assert words in settings.find_control(c, option).choices
    changed = c.with_options(**settings.apply_controls(c, {option: words}))
    assert changed.memory({}).planned_bytes > 0 and changed.planned_wall({}).total_us > 0


def test_visible_checks_are_never_called_all(tmp_path: Path) -> None:
    answer = made(tmp_path, "measuring", EXERCISES["measuring"].solution)
    said = str(course.check("measuring", answer))
    assert "3 of 3 visible checks passed" in said and "These are not all" in said
    assert "visible" not in str(course.grade("measuring", answer, SEED))


def test_an_answer_that_never_ends_or_crashes_is_a_sentence_and_the_rest_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(EXERCISES["measuring"], limits=Limits(seconds=0.3))
    monkeypatch.setattr(checking, "EXERCISES", {"measuring": short})
    endless = "def verdict(x, y):\n    while True:\n        pass\n"
    found = course.check("measuring", made(tmp_path, "measuring", endless))
    assert [r.outcome for r in found.results] == ["wrong", "not run", "not run"]
    assert re.match(r"it took more than 0.3 s, at line [23] of the cell", found.results[0].message)
    crash = "import ctypes\n\n\ndef verdict(x, y):\n    ctypes.string_at(0)\n"
    found = course.check("measuring", made(tmp_path, "measuring", crash))
    assert found.results[0].message == "it crashed its process (SIGSEGV)"


def test_an_error_of_an_answer_names_the_line_of_its_cell(tmp_path: Path) -> None:
    text = "def verdict(x, y):\n    return x / z\n"
    found = course.check("measuring", made(tmp_path, "measuring", text))
    said = "NameError: name 'z' is not defined, at line 2 of the cell (`return x / z`)"
    assert found.results[0].message == said


def test_hints_come_one_after_another_and_a_look_at_the_solution_is_kept(tmp_path: Path) -> None:
    e = EXERCISES["wall"]
    before = len(logged_events("hint", "wall"))
    assert before == 0
    told = [course.hint("wall") for _ in range(4)]
    assert told == [f"Hint {n} of 3: {e.hints[n - 1]}" for n in (1, 2, 3, 3)]
    assert course.solution("wall") == e.solution
    kept = (tmp_path / "log.jsonl").read_text()
    assert kept.count('"hint"') == 4 and '"what": "solution", "about": "wall"' in kept


def test_an_exercise_that_there_is_not_is_named() -> None:
    with pytest.raises(BadOption, match="there is no exercise 'walls'"):
        course.check("walls", None)


def test_no_result_shows_before_a_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    run: list[int] = []

    def experiment() -> int:
        run.append(1)
        return 12

    guess = course.predict("How many kernels are left?", ...)
    assert course.reveal(guess, experiment) is None and not run
    assert "Predict first" in capsys.readouterr().out
    guess = course.predict("How many kernels are left?", 6)
    assert course.reveal(guess, experiment) == 12
    told = "You said 6 (0.5 times it); it is 12."
    assert told in capsys.readouterr().out
    assert logged_events("revealed")[-1]["found"] == 12
    with pytest.raises(BadOption, match="a prediction is a number"):
        course.predict("How many?", [])  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, 9, "x", None, True])
def test_a_check_that_there_is_not_is_named(number: object) -> None:
    with pytest.raises(BadOption, match="the exercise 'measuring' has the checks 0 to"):
        course.expect("measuring", None, number)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [5, None, "verdict"])
def test_an_answer_that_is_no_function_is_told_so(answer: object) -> None:
    verdict = course.check("measuring", answer)
    assert verdict.results[0].message == f"verdict is {answer!r}, and must be a function"


def test_a_check_that_returns_something_gives_no_points(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Check("returns", 1, lambda answer, seed: False)  # type: ignore[arg-type, return-value]
    odd = replace(EXERCISES["measuring"], checks=(check,))
    monkeypatch.setattr(checking, "EXERCISES", {"measuring": odd})
    (result,) = course.check("measuring", lambda a, b: "").results
    assert (result.outcome, result.points) == ("not run", 0)
    assert (
        "the check returned False" in result.message and "fault of the exercise" in result.message
    )


@pytest.mark.parametrize("points", [0, -3, float("nan"), 1.5, True])
def test_points_are_a_whole_number_above_zero(points: object) -> None:
    with pytest.raises(BadOption, match=r"the check 'c' has .* points"):
        Check("c", points, lambda answer, seed: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("answer", "nope", "its stub defines no 'nope'"),
        ("solution", "x = 1\n", "its solution defines no 'verdict'"),
        ("checks", (), "it needs checks and hints"),
        ("policy_of", "nosystem", "there is no system 'nosystem'"),
    ],
)
def test_an_exercise_that_lacks_a_part_is_refused(part: str, value: object, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        replace(EXERCISES["measuring"], **{part: value})  # type: ignore[arg-type]


def test_a_list_that_is_cut_off_ends_quietly() -> None:
    command = f"{sys.executable} -m explorer.course list | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
