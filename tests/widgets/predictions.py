"""Answers of a chapter's predictions, and the places that show one before it is revealed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import nbformat

ANSWER = "the answer of a prediction:"
MANY_DIGITS = 3  # of a fraction: it stands for nothing else
LARGE = 1000  # an integer of four digits: the same
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w]|\.\d)")
SPELLED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COMMON = """
    about after all also and are before can does each first for from has have here how its least
    many more most must need not one only per seem should take taken that the them then there
    these this two was what when where which with without
"""


@dataclass(frozen=True, slots=True)
class Reveal:
    """A call of `course.reveal` in a cell: the question, and the experiment as source."""

    cell: int
    question: str
    experiment: str


def calls(source: str, function: str) -> list[ast.Call]:
    """Return the calls of `course.FUNCTION` in a cell, in order."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"course.{function}"
    ]


def reveals(notebook: nbformat.NotebookNode) -> list[Reveal]:
    """Return the reveals of a notebook; a prediction is known by the name that it is bound to."""
    questions: dict[str, str] = {}
    found = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.Assign) and calls(ast.unparse(node), "predict"):
                (call,) = calls(ast.unparse(node), "predict")
                questions[ast.unparse(node.targets[0])] = ast.literal_eval(call.args[0])
        for call in calls(cell.source, "reveal"):
            name, experiment = map(ast.unparse, call.args)
            found.append(Reveal(number, questions[name], experiment))
    return found


def insert_answers(notebook: nbformat.NotebookNode) -> None:
    """Insert a cell behind each reveal that prints its answer as a literal."""
    for reveal in reversed(reveals(notebook)):
        value = f"getattr(_value := ({reveal.experiment})(), 'item', lambda: _value)()"
        cell = nbformat.v4.new_code_cell(f"print({ANSWER!r}, repr({value}))")
        notebook.cells.insert(reveal.cell + 1, cell)


def leaks(notebook: nbformat.NotebookNode) -> list[str]:
    """Return each line before a reveal that shows its answer, with the question.

    The notebook ran without predictions, with the cells of `insert_answers`. Lines are those of
    its texts and sources, of the cell that reveals too, and of its outputs.
    """
    found = []
    for reveal in reveals(notebook):
        answer = _answer(notebook.cells[reveal.cell + 1])
        for number, cell in enumerate(notebook.cells[: reveal.cell + 1]):
            found += [
                f"{reveal.question} cell {number} shows {answer!r}: {line.strip()[:120]}"
                for line in _lines(cell)
                if shows(line, answer, reveal.question)
            ]
    return found


def _answer(cell: nbformat.NotebookNode) -> int | float | str | bool:
    (output,) = cell.outputs
    answer: int | float | str | bool = ast.literal_eval(output.text.removeprefix(ANSWER).strip())
    return answer


def _lines(cell: nbformat.NotebookNode) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield from re.split(r"(?<=[.:;?])\s", cell.source)
    elif ANSWER not in cell.source and not calls(cell.source, "predict"):
        yield from cell.source.splitlines()
    for output in cell.get("outputs", ()):
        text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
        hidden = ("Predict first:", ANSWER)
        yield from (line for line in text.splitlines() if not line.startswith(hidden))


def shows(line: str, answer: int | float | str | bool, question: str) -> bool:
    """Return True if a line has the answer, and it is seen that this is the answer.

    An answer of few digits, a truth value, or a choice that the question names, is seen if the
    line shares a word with the question, or asserts something.
    """
    if isinstance(answer, str | bool):
        has = str(answer) in line
        alone = isinstance(answer, str) and answer not in question
    else:
        has = any(_is_number(token, answer) for token in _numbers(line))
        digits = f"{answer:g}".replace(".", "").lstrip("-0")
        alone = abs(answer) >= LARGE or (answer % 1 != 0 and len(digits) >= MANY_DIGITS)
    in_context = bool(_stems(line) & _stems(question)) or line.strip().startswith("assert ")
    return has and (alone or in_context)


def _numbers(line: str) -> Iterator[str]:
    yield from (token.replace(",", "") for token in NUMBER.findall(line))
    words = re.findall(r"[a-z]+", line.lower())
    yield from (str(SPELLED.index(word) + 1) for word in words if word in SPELLED)


def _is_number(token: str, answer: float) -> bool:
    """Return True if a token is the answer, rounded to the digits of the token."""
    digits = len(token.partition(".")[2])
    return float(token) == answer or (digits > 0 and round(answer, digits) == float(token) != 0)


def _stems(line: str) -> frozenset[str]:
    words = re.findall(r"[a-z]{3,}", line.lower())
    return frozenset(word.removesuffix("s") for word in words if word not in COMMON.split())
