"""A prediction that is made before the result shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeVar

from explorer.course.log import note
from explorer.errors import BadOption

Result = TypeVar("Result", int, float, str, bool)


@dataclass(frozen=True)
class Prediction:
    """What was asked, and the answer that was committed; an Ellipsis is none yet."""

    question: str
    answer: int | float | str | bool | EllipsisType

    @property
    def committed(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not ...

    def __repr__(self) -> str:
        said = f"you predict {self.answer}" if self.committed else "put your answer for ..."
        return f"{self.question} {said}"


def predict(question: str, answer: int | float | str | bool | EllipsisType = ...) -> Prediction:
    """A committed prediction: it is written to the log, with its question. `...` commits nothing.

    Raises BadOption where the answer is no number, word or truth value.
    """
    if not isinstance(answer, int | float | str | bool | EllipsisType):
        raise BadOption(
            f"a prediction is a number, a word or True or False, not {type(answer).__name__}",
            where=question,
        )
    made = Prediction(question, answer)
    if made.committed:
        note("predicted", question, answer=answer)
    return made


def reveal(prediction: Prediction, result: Callable[[], Result]) -> Result | None:
    """What an experiment gives, beside what was predicted; without a prediction it is not run, and
    nothing shows.
    """
    if not prediction.committed:
        print(f"Predict first: {prediction.question} Put your answer in the place of `...`.")
        return None
    found = result()
    guess = prediction.answer
    note("revealed", prediction.question, answer=guess, found=found)
    if isinstance(guess, int | float) and not isinstance(guess, bool | str):
        off = "" if not found or isinstance(found, str) else f" ({guess / found:.2g} times it)"
        print(f"{prediction.question} You said {guess:g}{off}; it is {found:g}.")
    else:
        print(f"{prediction.question} You said {guess}; it is {found}.")
    return found
