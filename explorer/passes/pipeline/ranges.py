"""What an option may be: a whole number within a range, a switch, one of some words, a policy.

Each raises a BadOption that names the option, what it may be and what was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn

from explorer.errors import BadOption
from explorer.passes.policies import registered

FROM_A_SHELL = "one of these, a plug-in's name, or a function in a file: ./mine.py:my_policy"
LONGEST_CHARACTERS = 60  # of a value in a sentence; chosen


def whole(name: str, value: object, low: int, high: int) -> None:
    """A whole number from `low` to `high`."""
    fits = isinstance(value, Integral) and not isinstance(value, bool)
    if not (fits and isinstance(value, Integral) and low <= int(value) <= high):
        _refuse(name, f"a whole number from {low} to {high}", value)


def below(name: str, value: object, high: float) -> None:
    """A number from 0 on, less than `high`."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    if not (fits and isinstance(value, Real) and 0 <= float(value) < high):
        _refuse(name, f"0 or more and below {high:g}", value)


def share(name: str, value: object) -> None:
    """A number from 0 to 1."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    if not (fits and isinstance(value, Real) and 0 <= float(value) <= 1):
        _refuse(name, "a number from 0 to 1", value)


def switch(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        _refuse(name, "true or false", value)


def one_of(name: str, value: object, known: Iterable[str]) -> None:
    """One of some words."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        _refuse(name, f"one of {', '.join(words)}", value)


def policy(name: str, value: object, known: Iterable[str]) -> object:
    """The name of a policy, or a function: what a name of one's own stands for."""
    system = name.partition(".")[0]
    value = registered.found(system, value)
    words = (*known, *registered.of(system))
    if not callable(value) and not (isinstance(value, str) and value in words):
        _refuse(name, f"a function or one of {', '.join(words)}", value, FROM_A_SHELL)
    return value


def rows(name: str, value: object, kinds: tuple[type, ...], example: str) -> None:
    """A tuple of tuples of these types, or of values of the one type."""

    def fits(row: object) -> bool:
        if len(kinds) == 1:
            return isinstance(row, kinds[0])
        same = isinstance(row, tuple) and len(row) == len(kinds)
        return same and isinstance(row, tuple) and all(map(isinstance, row, kinds))

    if not isinstance(value, tuple) or not all(map(fits, value)):
        _refuse(name, example, value)


def _refuse(name: str, wanted: str, value: object, try_: str = "") -> NoReturn:
    found = shown(value)
    sentence = f"{name} is {wanted}, found {found}"
    raise BadOption(sentence, where=name, expected=wanted, found=found.strip("'"), try_=try_)


def shown(value: object) -> str:
    """A value in a sentence, however long it is."""
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST_CHARACTERS:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= LONGEST_CHARACTERS else f"{text[:LONGEST_CHARACTERS]}…"
