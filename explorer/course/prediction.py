"""Predictions that are made before the result shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeVar

from explorer.course.log import log_event
from explorer.errors import BadOption

Result = TypeVar("Result", int, float, str, bool)


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
    guess = prediction.answer
    log_event("revealed", prediction.question, answer=guess, found=value)
    if isinstance(guess, int | float) and not isinstance(guess, bool | str):
        off = "" if not value or isinstance(value, str) else f" ({guess / value:.2g} times it)"
        print(f"{prediction.question} You said {guess:g}{off}; it is {value:g}.")
    else:
        print(f"{prediction.question} You said {guess}; it is {value}.")
    return value
