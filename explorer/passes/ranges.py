"""Legal values of options, as data beside their defaults.

    top_k: int = option(10, Whole(1, 10_000), "tiles that are weighed")

Options validate themselves by it, and user interfaces read the ranges from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

from explorer.errors import BadOption
from explorer.passes import policy_call

FROM_A_SHELL = (
    "one of these, a function in a file: ./mine.py:my_policy, "
    "or a name that a file of --plugin registers"
)
LONGEST_CHARACTERS = 60  # of a value in a sentence; chosen
LEGAL, SAYS = "legal", "says"


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer from `low` to `high`."""

    low: int
    high: int

    @property
    def words(self) -> str:
        """The bounds in words."""
        return f"a whole number from {self.low} to {self.high}"

    def fits(self, value: object) -> bool:
        """Return True if a value is an integer in the range and no bool."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            return False
        return self.low <= int(value) <= self.high


@dataclass(frozen=True, slots=True)
class Share:
    """A number from 0 to 1, exclusive of 1 if `below`."""

    below: bool = False

    @property
    def words(self) -> str:
        """The bounds in words."""
        return "0 or more and below 1" if self.below else "a number from 0 to 1"

    def fits(self, value: object) -> bool:
        """Return True if a value is a real number in the range; NaN and bools are not."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        return 0 <= float(value) <= 1 and not (self.below and float(value) == 1)


@dataclass(frozen=True, slots=True)
class Switch:
    """A bool."""

    @property
    def words(self) -> str:
        """Both values in words."""
        return "true or false"

    def fits(self, value: object) -> bool:
        """Return True if a value is a bool; 1 is not."""
        return isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words."""

    choices: tuple[str, ...]

    @property
    def words(self) -> str:
        """The legal words."""
        return f"one of {', '.join(self.choices)}"

    def fits(self, value: object) -> bool:
        """Return True if a value is one of the words."""
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True, slots=True)
class PolicyOf:
    """A policy of a system: a built-in name, a registered name, or a function."""

    system: str
    builtin: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The current names of policies."""
        return (*self.builtin, *policy_call.by_system(self.system))

    @property
    def words(self) -> str:
        """The legal values in words."""
        return f"a function or one of {', '.join(self.names)}"

    def fits(self, value: object) -> bool:
        """Return True if a value is a function or the name of a policy."""
        return callable(value) or (isinstance(value, str) and value in self.names)

    def resolve(self, value: object) -> Any:
        """Return the policy registered under a name; return anything else unchanged."""
        return policy_call.resolve(self.system, value)


@dataclass(frozen=True, slots=True)
class Rows:
    """A tuple of tuples of these types, or of values if there is one type; `words` describes it."""

    kinds: tuple[type, ...]
    words: str

    def fits(self, value: object) -> bool:
        """Return True if every row has these types."""
        return isinstance(value, tuple) and all(map(self._row, value))

    def _row(self, row: object) -> bool:
        if len(self.kinds) == 1:
            return isinstance(row, self.kinds[0])
        if not isinstance(row, tuple) or len(row) != len(self.kinds):
            return False
        return all(map(isinstance, row, self.kinds))


Legal = Integer | Share | Switch | OneOf | PolicyOf | Rows


def option(default: Any, legal: Legal, says: str) -> Any:
    """Declare a field of options with its legal values and a short description."""
    return field(default=default, metadata={LEGAL: legal, SAYS: says})


def legal(options: object) -> Mapping[str, Legal]:
    """Return the legal values of each option that declares them."""
    declared = fields(options) if is_dataclass(options) else ()
    return {f.name: f.metadata[LEGAL] for f in declared if LEGAL in f.metadata}


def descriptions(options: object) -> Mapping[str, str]:
    """Return the descriptions of the options."""
    declared = fields(options) if is_dataclass(options) else ()
    return {f.name: f.metadata[SAYS] for f in declared if SAYS in f.metadata}


def check(group: str, options: object) -> None:
    """Validate a group of options in its constructor; resolve names of user-defined policies.

    Raises:
        BadOption: an option has an illegal value. The error names the option, its legal values and
            the value.
    """
    for name, allowed in legal(options).items():
        value = getattr(options, name)
        if isinstance(allowed, PolicyOf):
            value = allowed.resolve(value)
            object.__setattr__(options, name, value)
        check_value(f"{group}.{name}", value, allowed)


def check_value(name: str, value: object, allowed: Legal) -> None:
    """Raise BadOption if an option may not have this value."""
    if not allowed.fits(value):
        from_a_shell = FROM_A_SHELL if isinstance(allowed, PolicyOf) else ""
        refuse(name, allowed.words, value, from_a_shell)


def refuse(name: str, wanted: str, value: object, try_: str = "") -> NoReturn:
    """Raise BadOption about an illegal value."""
    value_text = shown(value)
    sentence = f"{name} is {wanted}, found {value_text}"
    raise BadOption(sentence, where=name, expected=wanted, actual=value_text.strip("'"), try_=try_)


def shown(value: object) -> str:
    """Return the text of a value, shortened for a sentence."""
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST_CHARACTERS:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= LONGEST_CHARACTERS else f"{text[:LONGEST_CHARACTERS]}…"


__all__ = [
    "Integer",
    "Legal",
    "OneOf",
    "PolicyOf",
    "Rows",
    "Share",
    "Switch",
    "check",
    "check_value",
    "descriptions",
    "legal",
    "option",
    "refuse",
    "shown",
]  # fmt: skip
