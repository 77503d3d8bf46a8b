"""What a difference is: rows, each of something that was added, removed, changed or moved."""

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
class Place:
    """A binding in a function, or a loop nest in the kernel that a binding calls. `number` counts
    the bindings of its program.
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
    """One difference: `what` is an "operator", a "kernel", a "loop" in a kernel, a "library call",
    "control flow", a "view", "shapes", or an "output". `words` say what of it is different.
    """

    kind: Kind
    what: str
    before: Place | None
    after: Place | None
    words: tuple[str, ...] = ()

    @property
    def place(self) -> Place | None:
        """Where it is now, or where it was; None of an output that no binding makes."""
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
        said = f"{self.kind} {self.what} {self.name}".rstrip()
        return f"{said}: {'; '.join(self.words)}" if self.words else said


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Printed):
    """All that two programs have different, in the order of the second. `same` counts the bindings
    that are equal, `renamed` those of them that have another name.
    """

    changes: tuple[Change, ...]
    same: int
    renamed: int

    @property
    def counts(self) -> Mapping[str, int]:
        """How many of each kind, loops included."""
        found = Counter(c.kind for c in self.changes)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        """A line each."""
        return "\n".join(map(str, self.changes)) or f"no difference in {self.same} bindings"
