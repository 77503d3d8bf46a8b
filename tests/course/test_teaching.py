"""Every claim of the teacher's guide, run: a sentence without a check, or a check without its
sentence, fails.
"""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import explorer
from explorer import course
from explorer.cli import main as ironworks
from explorer.course import assignment
from explorer.course.__main__ import main
from explorer.course.exercise import Activity, Exercise
from explorer.course.exercises import EXERCISES
from explorer.course.prediction import LOG_VARIABLE
from explorer.ir.program import Program
from explorer.rammer import Options as Rammer
from tests.benchmarks import course as benchmark
from tests.course.answers import RIGHT, WRONG

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
GUIDE = (NOTEBOOKS / "TEACHING.md").read_text("utf-8")
CHAPTERS = {p.stem: json.loads(p.read_text("utf-8")) for p in sorted(NOTEBOOKS.glob("*.ipynb"))}
# Paragraphs and sentences on grading: the grader's own tests run what they say.
GRADING_PARAGRAPH = re.compile(r"explorer\.course grade|autograde|\bjail|\bhelper\b|does not hold")
OF_GRADING = re.compile(r"grad|nbgrader|otter|seed|hidden")
ADVICE = {  # sentences that ask for something, or speak of other programs
    "Times are printed as evidence": "about times, which no test asserts",
    "Students need Python, NumPy": "a prerequisite",
    "They need no compiler course": "a prerequisite",
    "Chapters 00 to 02 come first": "an order",
    "Chapter 08 fits anywhere": "an order",
    "09 needs 06": "an order",
    "A short course of six classes": "an order",
    "Chapter 12 is a project": "a plan",
    "An exit answer is right if": "advice on marking",
    "A *kernel call* is a `call_tir`": "terms of other compilers",
    "*fuse (Welder)* is fusion": "terms of other compilers",
    "*tile (Roller)* is tiling": "terms of other compilers",
    "The *wall* is a static schedule": "terms of other compilers",
    "An *origin* is a location": "terms of other compilers",
    "*Relax symbols* are SymInts": "terms of other compilers",
}
# For each mistake of the table: the wrong answer that makes it, which test_exercises.py runs; or a
# line of the chapter that shows it.
MISTAKES = {
    "an operator counts in one kernel only": "one operator of a kernel alone",
    "an operator without a kernel has no row": "without those that are folded",
    "the last window is forgotten": "one window too few",
    "a size of 0 is no error": "every size is taken",
    "a single negation is removed": "every negation",
    "only one pair is removed": "one pair alone",
    "a value of exactly the limit goes to memory": "at the limit",
    "the reason of a refusal names no number": "no number",
    "tiles that others beat are among them": "all of them",
    "only the fastest tile is yielded": "the fastest alone",
    "every kernel counts as memory-bound": "all wait for memory",
    "the longest kernels dominate the fit": "the longest decide",
    "tasks are dealt in turn without regard to their length": "like cards",
    "the last task is forgotten": "forgets the last task",
    "the reference computes another function": "another reference",
    "one barrier is taken to be enough for a chunk": "assert len(syncs) == 2 and race(printed)",
    "means are used instead of medians": "means",
    "every difference is called one": "always sure",
    "the loop runs once": "one trip",
    "the result of zero iterations is wrong": "divided at the end",
    "a buffer is accepted by one binding although every binding counts": "by one binding",
    "only equal sizes are accepted": "equal ones alone",
    "the budget is exceeded by a little": "a tenth over the budget",
    "a result is returned although no choice is within the budget": (
        "8 bits if nothing is within it"
    ),
    "the second term is missing": "without the second term",
    "`exp` overflows": "overflows",
    "the whole Jacobian is computed": "the whole Jacobian",
    "a product is computed twice because another binding reads it, too": (
        "also what is read twice"
    ),
    "a product is reordered although it then costs more": "always to the right",
}


def rows() -> list[list[str]]:
    """Return the cells of the table, a row each."""
    lines = [line for line in GUIDE.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def sentences() -> list[str]:
    """Return the sentences of the guide that are neither of the table nor on grading."""
    lines = (line for line in GUIDE.splitlines() if line[:1] not in ("|", "#"))
    paragraphs = re.sub(r"\*\*[^*]+\*\*\.? ?", "", "\n".join(lines)).split("\n\n")
    text = "\n".join(p for p in paragraphs if not GRADING_PARAGRAPH.search(p))
    parts = re.split(r"(?<=[.:;])\s+(?=[A-Z0-9`*\[-])", text)
    found = (part.strip("- \n") for part in parts)
    return [part for part in found if part and not OF_GRADING.search(part)]


def cells(name: str, kind: str) -> list[str]:
    return ["".join(c["source"]) for c in CHAPTERS[name]["cells"] if c["cell_type"] == kind]


def words(name: str) -> str:
    return "\n".join(cells(name, "markdown"))


def source(name: str) -> str:
    return "\n".join(cells(name, "code"))


def large(chapter: str) -> Exercise:
    """The exercise of a chapter that is handed in; the warm-ups come before it."""
    (e,) = (e for e in EXERCISES.values() if e.chapter == chapter and not e.is_warm_up)
    return e


def fourteen_chapters(_: Path) -> None:
    minutes = re.findall(r"^- (\d+) minutes", GUIDE, re.M)
    assert len(CHAPTERS) == 14 and sum(map(int, minutes)) == 75


def parts_of_a_class(_: Path) -> None:
    for name, chapter in CHAPTERS.items():
        roles = [c["metadata"].get("ironworks", {}).get("role") for c in chapter["cells"]]
        assert roles.count("moment") == 1 and large(name), name
        assert "course.predict(" in source(name) and "*Before you go.*" in words(name)


def ends_of_sections(_: Path) -> None:
    for name in CHAPTERS:
        sections = re.split(r"^## \d+\. ", words(name), flags=re.M)[1:]
        assert all(len(re.findall(r"\*(Investigate|Modify)\.\*", s)) == 1 for s in sections), name


def claims_by_counts(_: Path) -> None:
    for name in CHAPTERS:
        tree = ast.parse(source(name))
        tests = [ast.unparse(n.test) for n in ast.walk(tree) if isinstance(n, ast.Assert)]
        assert tests and not any(re.search(r"\.time\(|compare\(|perf_counter", t) for t in tests)


def without_display(_: Path) -> None:
    env = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
    script = "import explorer, widgets; widgets.show(explorer.compile('zoo:tiny_skip'), 'memory')"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, check=True)


def lists_exercises(_: Path) -> None:
    command = [sys.executable, "-m", "explorer.course", "list"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(e.name in printed and e.chapter in printed for e in EXERCISES.values())


def builds_notebooks(folder: Path) -> None:
    assert main(["build", "06", "-o", str(folder / "ps1")]) == 0
    text = (folder / "ps1" / "06_schedules.ipynb").read_text("utf-8")
    assert "NotImplementedError" in text and "free.index" not in text
    assert "course.solution" not in text and "course.hint" in text


def checks_apart(_: Path) -> None:
    seen: list[object] = []
    space: dict[str, object] = {}
    exec(EXERCISES["wall"].solution, space)
    answer: Callable[..., object] = space["earliest"]  # type: ignore[assignment]

    def earliest(facts: object) -> object:
        seen.append(facts)
        return answer(facts)

    verdict = course.check("wall", earliest)
    assert verdict.outcome == "passed" and not seen and "visible checks" in str(verdict)
    assert "wall" in str(verdict.entered)
    c = explorer.compile("zoo:small_nerf", options=explorer.Options(rammer=Rammer(policy="wall")))
    assert c.planned_wall().bricks
    explorer.forget_policy("wall", system="rammer")


def hints_and_solution(_: Path) -> None:
    assert course.hint("vjp") != course.hint("vjp")
    assert course.solution("vjp") == EXERCISES["vjp"].solution
    assert not any("course.solution" in words(name) + source(name) for name in CHAPTERS)


def log_of_a_student(folder: Path) -> None:
    log = folder / "log.jsonl"
    os.environ[LOG_VARIABLE], before = str(log), os.environ.get(LOG_VARIABLE, "")
    try:
        course.predict("How many?", 3)
        course.check("wall", lambda facts: facts)
        course.hint("wall")
        course.solution("wall")
    finally:
        os.environ[LOG_VARIABLE] = before
    kinds = [json.loads(line)["what"] for line in log.read_text("utf-8").splitlines()]
    assert kinds == ["predicted", "checked", "hint", "solution"]


def smallest_counterexample(_: Path) -> None:
    def halve(program: Program) -> Program:
        halved = {n: type(c)(c.array / 2) for n, c in program.constants.items()}
        return replace(program, constants=halved)

    assert course.counterexample(lambda program: program, after="fold constants") is None
    assert course.counterexample(halve, after="fold constants") is not None


def two_hours_of_training(_: Path) -> None:
    said = "Sections 1 to 5 are one class; sections 6 to 9 are for a second hour."
    assert said in words("11_training") and "## 9. " in words("11_training")


def where_answers_go(_: Path) -> None:
    def is_kind(e: Exercise) -> str:
        if e.policy_of:
            return "policy"
        marks = {
            "@widgets.picture": "picture",
            "explorer.operator(": "operator",
            "@explorer.compiler_pass": "pass",
            "def machine(": "machine",
            "@explorer.trace": "program",
        }
        return next((kind for mark, kind in marks.items() if mark in e.solution), "outside")

    chapters: dict[str, list[str]] = {}
    for e in map(large, CHAPTERS):
        chapters.setdefault(is_kind(e), []).append(e.chapter.partition("_")[0])
    assert chapters == {
        "picture": ["00"],
        "operator": ["01", "07"],
        "pass": ["02", "12"],
        "policy": ["03", "04", "06", "10"],
        "machine": ["05"],
        "program": ["09", "11"],
        "outside": ["08", "10b"],
    }


def points_without_clocks(_: Path) -> None:
    for path in (ROOT / "explorer" / "course" / "exercises").glob("*.py"):
        assert not re.search(r"perf_counter|\.time\(|import time\b", path.read_text("utf-8")), path


def half_of_the_points(_: Path) -> None:
    for e in map(large, CHAPTERS):
        visible = sum(c.points for c in e.checks if not c.hidden)
        assert e.points / 2 <= visible < e.points, e.name


def runs_a_challenge(folder: Path) -> None:
    c = course.begin("nerf")
    assert course.submit("nerf", c, folder / "ada.json").score_us > 0
    assert main(["verify", str(folder / "ada.json"), "--seconds", "0"]) == 0


def machine_requirements(_: Path) -> None:
    assert (benchmark.TOUR_MB, benchmark.MOST_MB) == (1024, 2048)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "tests.benchmarks.course" in makefile.partition("\nbench-course:")[2][:200]
    assert "\ndocs:" in makefile


def a_class_of_300(_: Path) -> None:
    scale = (ROOT / "docs" / "scale.md").read_text("utf-8")
    assert "300" in scale and "JupyterHub" in scale


def writes_slides(folder: Path) -> None:
    path = folder / "slides.html"
    assert ironworks(["report", "zoo:small_bert", "-o", str(path)]) == 0
    text = path.read_text("utf-8")
    assert "PNG" in text and "SVG" in text and not re.search(r'src="https?:', text)


def work_logs(folder: Path) -> None:
    log = course.worklog(folder / "log.jsonl")
    log.hypothesis("op-by-op is slower")
    assert main(["worklog", str(folder / "log.jsonl")]) == 0
    assert main(["worklog", "--template", str(folder / "task.md")]) == 0
    assert "hypothesis" in (folder / "task.md").read_text("utf-8").lower()


def pages_of_work_logs(_: Path) -> None:
    assert all((ROOT / "docs" / n).is_file() for n in ("assistants.md", "how_to/worklog.md"))


def own_exercise(_: Path) -> None:
    for e in map(large, CHAPTERS):
        assert len(WRONG[e.name]) >= 5 and len(RIGHT[e.name]) >= 2
        ids = [c["id"] for c in assignment.cells(e, "student")]
        assert len(ids) == 5 and set(ids) <= {c["id"] for c in CHAPTERS[e.chapter]["cells"]}
    assert (ROOT / "docs" / "how_to" / "exercise.md").is_file()


def small_exercises(_: Path) -> None:
    for e in (e for e in EXERCISES.values() if e.is_warm_up):
        ids = [c["id"] for c in CHAPTERS[e.chapter]["cells"]]
        assert 2 <= e.minutes <= 20, e.name
        assert ids.index(f"goal-{e.name}") < ids.index(f"goal-{large(e.chapter).name}"), e.name


def kinds_of_small_exercises(_: Path) -> None:
    assert set(get_args(Activity)) == {"fill in", "predict", "find the fault", "write"}
    for e in (e for e in EXERCISES.values() if e.is_warm_up):
        kinds = [c["id"].split("-")[0] for c in assignment.cells(e, "student")]
        assert kinds == ["goal", "answer", "check"], e.name


def slides_of_chapters(_: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\nslides: $(SLIDES)" in makefile and "\ndocs: $(RECORDED) $(LIVE) $(SLIDES)" in makefile
    slides = runpy.run_path(str(ROOT / "docs" / "slides.py"))
    for name, chapter in CHAPTERS.items():
        deck = slides["slides"](chapter, name, slides["read_guide"](name))
        kinds = [slide.kind for slide in deck]
        assert {"idea", "predict", "answer", "exercise", "exit"} <= set(kinds), name
        notes = "\n".join(note for slide in deck for note in slide.notes)
        (mistakes,) = [row[3] for row in rows() if row[0] == name]
        assert mistakes in notes and "20 minutes for the exercise" in notes, name


def plans_and_guide(_: Path) -> None:
    for name in ("plan_10_weeks", "plan_14_weeks", "assistant_guide", "scores"):
        assert (ROOT / "docs" / "teaching" / f"{name}.md").is_file()


def key_is_only_in_a_checkout(_: Path) -> None:
    """The wheel and the site take notebooks alone, and a key is no notebook of this folder."""
    key = NOTEBOOKS / "key"
    assert not key.exists() or {p.stem for p in key.iterdir()} <= {*CHAPTERS, "README"}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '"share/ironworks/notebooks" = ["notebooks/*.ipynb"]' in project
    pages = runpy.run_path(str(ROOT / "docs" / "course.py"))["pages"]()
    assert pages.keys() == {*CHAPTERS, "teaching", "slides"}


CLAIMS: dict[str, Callable[[Path], None]] = {
    "Each of the fourteen chapters is a class of 75 minutes": fourteen_chapters,
    "5 minutes for the prediction": parts_of_a_class,
    "35 minutes for the sections": ends_of_sections,
    "10 minutes for the main picture": parts_of_a_class,
    "20 minutes for the exercise": parts_of_a_class,
    "5 minutes for the exit question": parts_of_a_class,
    "A section ends in *Investigate*": ends_of_sections,
    "A chapter asserts its claims": claims_by_counts,
    "of 2 to 20 minutes stand in the sections": small_exercises,
    "Students fill in a blank, predict": kinds_of_small_exercises,
    "They belong to the same hand-in": small_exercises,
    "`make slides` makes slides": slides_of_chapters,
    "A slide is an idea, a picture": slides_of_chapters,
    "The speaker's notes have": slides_of_chapters,
    "There is a plan of": plans_and_guide,
    "[A guide for assistants]": plans_and_guide,
    "Model answers to the questions": key_is_only_in_a_checkout,
    "They are part of neither the wheel": key_is_only_in_a_checkout,
    "Everything runs without a display": without_display,
    "`python -m explorer.course list` names the exercises": lists_exercises,
    "`python -m explorer.course build 06 -o ps1` builds": builds_notebooks,
    '`course.check("wall", earliest)` runs the visible checks': checks_apart,
    "`course.hint` gives one hint after another": hints_and_solution,
    "`course_log.jsonl` beside the notebook records": log_of_a_student,
    "`course.counterexample(my_pass)` searches": smallest_counterexample,
    "Chapter 11 has material for two hours": two_hours_of_training,
    "sections 6 to 9 are for the second": two_hours_of_training,
    "A student's answer becomes part of the compiler": where_answers_go,
    "A policy does so after `course.check`": checks_apart,
    "The answers are a picture in 00": where_answers_go,
    "Only the answers of 08 and 10b stay outside": where_answers_go,
    "one compares the times of any two programs": where_answers_go,
    "Points are given for behaviour": points_without_clocks,
    "At least half of an exercise's points": half_of_the_points,
    '`course.begin("nerf")` compiles': runs_a_challenge,
    '`course.submit("nerf", c, "ada.json")` writes': runs_a_challenge,
    "`python -m explorer.course verify *.json` compiles": runs_a_challenge,
    "One core and 2 GB of memory are enough": machine_requirements,
    "`make bench-course` runs all chapters": machine_requirements,
    "describes a class of 300": a_class_of_300,
    "Readers without a kernel find the chapters": machine_requirements,
    "`ironworks report zoo:small_bert -o slides.html` writes": writes_slides,
    "Each picture has a button for PNG and SVG": writes_slides,
    "`course.worklog()` writes": work_logs,
    "`python -m explorer.course worklog": work_logs,
    "[how to use a work log]": pages_of_work_logs,
    "[A policy for assistants]": pages_of_work_logs,
    "is one `Exercise(...)` in a module": own_exercise,
    "[how to add an exercise]": own_exercise,
    "`python -m pytest tests/course` runs": own_exercise,
}


def test_each_sentence_is_a_claim_that_runs_or_advice() -> None:
    known = (*CLAIMS, *ADVICE)
    loose = [s for s in sentences() if not any(part in s for part in known)]
    assert not loose, "add each to CLAIMS, or to ADVICE with a reason"
    stale = [k for k in known if k not in GUIDE]
    assert not stale, "no sentence says this any more"


@pytest.mark.parametrize("claim", dict.fromkeys(CLAIMS.values()), ids=lambda c: c.__name__)
def test_a_claim_holds(claim: Callable[[Path], None], tmp_path: Path) -> None:
    claim(tmp_path)


def test_the_table_has_each_chapter_with_its_exercise() -> None:
    assert [row[0] for row in rows()] == list(CHAPTERS)
    for chapter, can, exercises, _ in rows():
        e = large(chapter)
        named = {e.answer, e.policy_name, e.name, *re.findall(r"^def (\w+)", e.stub, re.M)}
        assert set(re.findall(r"`(\w+)`", exercises)) <= named, chapter
        promise = words(chapter).partition("After this class you can")[2].partition("\n\n")[0]
        shared = set(re.findall(r"[a-z]{5,}", can)) & set(re.findall(r"[a-z]{5,}", promise))
        assert len(shared) >= 3, f"{chapter}: the chapter promises {promise!r}"


def test_the_table_names_mistakes_that_a_wrong_answer_makes() -> None:
    listed = {m.strip(): row[0] for row in rows() for m in row[3].split(";")}
    assert listed.keys() == MISTAKES.keys()
    for mistake, chapter in listed.items():
        e = large(chapter)
        assert MISTAKES[mistake] in WRONG[e.name] or MISTAKES[mistake] in source(chapter), mistake
