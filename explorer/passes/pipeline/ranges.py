"""What an option may be, as data beside its default:

    top_k: int = option(10, Whole(1, 10_000), "tiles that are weighed")

Options check themselves by it, and whoever changes them learns from it what they may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

from explorer.errors import BadOption
from explorer.passes.policies import registered

FROM_A_SHELL = "one of these, a plug-in's name, or a function in a file: ./mine.py:my_policy"
LONGEST_CHARACTERS = 60  # of a value in a sentence; chosen
LEGAL, SAYS = "legal", "says"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `low` to `high`."""

    low: int
    high: int

    @property
    def words(self) -> str:
        """Its bounds."""
        return f"a whole number from {self.low} to {self.high}"

    def fits(self, value: object) -> bool:
        """No truth value is a number here."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            return False
        return self.low <= int(value) <= self.high


@dataclass(frozen=True, slots=True)
class Share:
    """A number from 0 to 1, or, `below`, one less than that."""

    below: bool = False

    @property
    def words(self) -> str:
        """Its bounds."""
        return "0 or more and below 1" if self.below else "a number from 0 to 1"

    def fits(self, value: object) -> bool:
        """NaN is none."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        return 0 <= float(value) <= 1 and not (self.below and float(value) == 1)


@dataclass(frozen=True, slots=True)
class Switch:
    """True or False."""

    @property
    def words(self) -> str:
        """Both."""
        return "true or false"

    def fits(self, value: object) -> bool:
        """1 is not True here."""
        return isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words."""

    known: tuple[str, ...]

    @property
    def words(self) -> str:
        """All of them."""
        return f"one of {', '.join(self.known)}"

    def fits(self, value: object) -> bool:
        """Whether it is such a word."""
        return isinstance(value, str) and value in self.known


@dataclass(frozen=True, slots=True)
class PolicyOf:
    """A policy of a system: one of those that it knows by name, one that was registered for it, or
    a function.
    """

    system: str
    known: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """All that have a name now."""
        return (*self.known, *registered.of(self.system))

    @property
    def words(self) -> str:
        """All of them."""
        return f"a function or one of {', '.join(self.names)}"

    def fits(self, value: object) -> bool:
        """Whether it is a name or a function."""
        return callable(value) or (isinstance(value, str) and value in self.names)

    def found(self, value: object) -> Any:
        """What a name of one's own stands for; anything else as it is."""
        return registered.found(self.system, value)


@dataclass(frozen=True, slots=True)
class Rows:
    """A tuple of tuples of these types, or of values of the one type; `words` says of what."""

    kinds: tuple[type, ...]
    words: str

    def fits(self, value: object) -> bool:
        """Whether every row has these types."""
        return isinstance(value, tuple) and all(map(self._row, value))

    def _row(self, row: object) -> bool:
        if len(self.kinds) == 1:
            return isinstance(row, self.kinds[0])
        if not isinstance(row, tuple) or len(row) != len(self.kinds):
            return False
        return all(map(isinstance, row, self.kinds))


Legal = Whole | Share | Switch | OneOf | PolicyOf | Rows


def option(default: Any, legal: Legal, says: str) -> Any:
    """A field of options, with what it may be, and what it says, in a few words."""
    return field(default=default, metadata={LEGAL: legal, SAYS: says})


def legal(options: object) -> Mapping[str, Legal]:
    """What each option may be, of those that say so."""
    found = fields(options) if is_dataclass(options) else ()
    return {f.name: f.metadata[LEGAL] for f in found if LEGAL in f.metadata}


def says(options: object) -> Mapping[str, str]:
    """What each of them says."""
    found = fields(options) if is_dataclass(options) else ()
    return {f.name: f.metadata[SAYS] for f in found if SAYS in f.metadata}


def check(group: str, options: object) -> None:
    """A group of options while it is made; the name of a policy of one's own becomes its function.

    Raises BadOption, which names the option, what it may be and what was found.
    """
    for name, allowed in legal(options).items():
        value = getattr(options, name)
        if isinstance(allowed, PolicyOf):
            value = allowed.found(value)
            object.__setattr__(options, name, value)
        taken(f"{group}.{name}", value, allowed)


def taken(name: str, value: object, allowed: Legal) -> None:
    """One value; BadOption where an option may not have it."""
    if not allowed.fits(value):
        from_a_shell = FROM_A_SHELL if isinstance(allowed, PolicyOf) else ""
        refuse(name, allowed.words, value, from_a_shell)


def refuse(name: str, wanted: str, value: object, try_: str = "") -> NoReturn:
    """The sentence about a value that is not what is wanted."""
    found = shown(value)
    sentence = f"{name} is {wanted}, found {found}"
    raise BadOption(sentence, where=name, expected=wanted, found=found.strip("'"), try_=try_)


def shown(value: object) -> str:
    """A value in a sentence, however long it is."""
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST_CHARACTERS:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= LONGEST_CHARACTERS else f"{text[:LONGEST_CHARACTERS]}…"


__all__ = [
    "Legal", "OneOf", "PolicyOf", "Rows", "Share", "Switch", "Whole",
    "check", "legal", "option", "refuse", "says", "shown", "taken",
]  # fmt: skip
