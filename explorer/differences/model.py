"""Rows of a structural difference: added, removed, changed or moved parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from explorer.ir.kernel import Compute
from explorer.ir.program import Binding
from explorer.printed import Printed

Kind = Literal["added", "removed", "changed", "moved"]
KINDS: tuple[Kind, ...] = ("added", "removed", "changed", "moved")


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """A binding in a function, or a loop nest in the kernel that a binding calls.

    `number` is the binding's position in its program.
    """

    number: int
    function: str
    binding: Binding
    loop: Compute | None = None

    @property
    def name(self) -> str:
        """The value that is made, or the loop's tensor."""
        return self.loop.out if self.loop is not None else self.binding.name

    @property
    def ops(self) -> frozenset[str]:
        """The source operators that it comes from."""
        return (self.loop.origin if self.loop is not None else None) or self.binding.origin


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    `what` is an "operator", a "kernel", a "loop" in a kernel, a "library call", "control flow", a
    "view", "shapes", or an "output". `words` describe the difference.
    """

    kind: Kind
    what: str
    before: ChangePlace | None
    after: ChangePlace | None
    words: tuple[str, ...] = ()

    @property
    def place(self) -> ChangePlace | None:
        """The place now, or before; None for an output that no binding makes."""
        return self.after or self.before

    @property
    def name(self) -> str:
        """The value that is made there, or the loop's tensor."""
        return self.place.name if self.place else ""

    @property
    def ops(self) -> frozenset[str]:
        """The source operators that it is about."""
        both = (self.before, self.after)
        return frozenset[str]().union(*(p.ops for p in both if p is not None))

    def __str__(self) -> str:
        """Return the row as one line."""
        text = f"{self.kind} {self.what} {self.name}".rstrip()
        return f"{text}: {'; '.join(self.words)}" if self.words else text


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Printed):
    """All differences of two programs, in the order of the second.

    `same` counts equal bindings, `renamed` those of them with another name.
    """

    changes: tuple[Change, ...]
    same: int
    renamed: int

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of rows of each kind, loops included."""
        numbers = Counter(c.kind for c in self.changes)
        return {kind: numbers[kind] for kind in KINDS if numbers[kind]}

    def __bool__(self) -> bool:
        """Return True if there is a difference."""
        return bool(self.changes)

    def __str__(self) -> str:
        """Return a line for each row."""
        return "\n".join(map(str, self.changes)) or f"no difference in {self.same} bindings"
