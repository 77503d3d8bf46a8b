"""Predictions that are made before the result shows, and the log of a student.

The log holds predictions, checks, hints, and solutions that were looked at. It is a file of JSON
lines beside the notebook, which its author may read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeGuard, TypeVar

import numpy as np

from explorer.errors import BadOption
from explorer.process.sandbox import is_helper

Result = TypeVar("Result", int, float, str, bool)
LOG_VARIABLE = "IRONWORKS_COURSE_LOG"  # path of the log; empty disables it
LOG_FILE = "course_log.jsonl"
_here: list[dict[str, Any]] = []
listeners: list[Callable[[dict[str, Any]], object]] = []  # an open work log


@dataclass(frozen=True)
class Prediction:
    """A question and the committed answer; an Ellipsis is no answer yet."""

    question: str
    answer: int | float | str | bool | EllipsisType

    @property
    def committed(self) -> bool:
        """True if there is an answer."""
        return self.answer is not ...

    def __repr__(self) -> str:
        """Return the question and the answer as text."""
        words = f"you predict {self.answer}" if self.committed else "put your answer for ..."
        return f"{self.question} {words}"


def predict(question: str, answer: int | float | str | bool | EllipsisType = ...) -> Prediction:
    """Commit a prediction and write it to the log; `...` commits nothing.

    Raises:
        BadOption: the answer is no number, word or truth value.
    """
    if not isinstance(answer, int | float | str | bool | EllipsisType):
        raise BadOption(
            f"a prediction is a number, a word or True or False, not {type(answer).__name__}",
            where=question,
        )
    prediction = Prediction(question, answer)
    if prediction.committed:
        log_event("predicted", question, answer=answer)
    return prediction


def reveal(prediction: Prediction, result: Callable[[], Result]) -> Result | None:
    """Run an experiment and print its result beside the prediction.

    Without a committed prediction the experiment is not run, and nothing shows.
    """
    if not prediction.committed:
        print(f"Predict first: {prediction.question} Put your answer in the place of `...`.")
        return None
    value = result()
    if isinstance(value, np.generic):  # JSON has no such type
        value = value.item()
    guess = prediction.answer
    log_event("revealed", prediction.question, answer=guess, found=value)
    ratio = ""
    if _shown(guess) == _shown(value):
        ratio = ", which is right"
    elif _is_number(guess) and _is_number(value) and value:
        ratio = f" ({guess / value:.2g} times it)"
    print(f"{prediction.question} You said {_shown(guess)}{ratio}; it is {_shown(value)}.")
    return value


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Return a number in few digits, and anything else as it prints."""
    return f"{value:g}" if _is_number(value) else str(value)


def log_event(kind: str, about: str, **more: Any) -> None:
    """Append a line to the log of this process and to the file, if it can be written."""
    line = {"time": round(time.time()), "what": kind, "about": about, **more}
    _here.append(line)
    if is_helper():
        return
    for listen in listeners:
        listen(line)
    path = os.environ.get(LOG_VARIABLE, LOG_FILE)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    except OSError:  # a read-only folder is no error
        pass


def logged_events(what: str = "", about: str = "") -> tuple[dict[str, Any], ...]:
    """Return the lines of this process, optionally of one kind and about one thing."""
    return tuple(
        line for line in _here if what in ("", line["what"]) and about in ("", line["about"])
    )
