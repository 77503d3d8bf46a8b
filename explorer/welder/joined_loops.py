"""Which kernels that map become one: the pair that spares most traffic first, for as long as there
is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from explorer.cached_property import cached_property
from explorer.ir.calls import KernelCall, MatchCast, Var, View, updates_of
from explorer.ir.kernel import Kernel, reads, rename_tensors
from explorer.ir.kernels.in_place import written_over
from explorer.ir.kernels.join import joined, kept_inside, maps_one_grid
from explorer.ir.kernels.merge import share_inputs
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor

MOST_TENSORS = 16  # that one loop walks along: each is an address to advance; chosen
NEAREST_LOOPS = 32  # of one value that are looked at, the last ones: a bound on search time, chosen


@dataclass(frozen=True, slots=True)
class Facts:
    """What a loop reads where it lies, so that no kernel has to copy it; the symbols; how many
    bytes lie near the units; and the inputs and results of the program.
    """

    rows: frozenset[str]
    env: ShapeEnv
    room: int
    inputs: frozenset[str]
    results: frozenset[str]


def ends(function: Function, program: Program) -> tuple[frozenset[str], frozenset[str]]:
    """The names of inputs and results of the program, if the function is its main one."""
    if function.name != program.main.name:
        return frozenset(), frozenset()
    results = frozenset(v.name for v in function.outputs)
    return frozenset(p.name for p in function.params), results


@dataclass(frozen=True, slots=True)
class Loop:
    """Kernels that have become one: their places, the kernel, whose tensors are called as the
    values are, these, and those of them that are read at the element that is written.
    """

    places: tuple[int, ...]
    kernel: Kernel
    values: Mapping[str, Var]
    whole: frozenset[str]


def joined_loops(function: Function, facts: Facts) -> list[Loop]:
    """The kernels of a function that became one with another."""
    choice = _Choice(function, facts)
    return [loop for loop in choice.made() if len(loop.places) > 1]


def bytes_of(v: Var, env: ShapeEnv) -> int:
    """The bytes of a value, for the sizes that are expected; 0 where nothing is known of them."""
    known = isinstance(v.type, Tensor) and v.type.is_known
    return env.hint(v.type.bytes) if known and isinstance(v.type, Tensor) else 0


class _Choice:
    """The loops of a function while they are joined, by number."""

    def __init__(self, function: Function, facts: Facts) -> None:
        self.body, self.facts = function.body, facts
        self.numbers = count(len(self.body))
        self.readers: dict[str, set[int]] = {v.name: {len(self.body)} for v in function.outputs}
        for n, b in enumerate(self.body):
            for v in b.reads:
                self.readers.setdefault(v.name, set()).add(n)
        self.loops: dict[int, Loop] = {}
        self.near: dict[str, list[int]] = {}  # the loops that read a value whole, or make it
        over = written_over(self.body)
        for n, b in enumerate(self.body):
            if not isinstance(b.expr, KernelCall) or not maps_one_grid(b.expr.kernel):
                continue
            if b.name in facts.rows or any(v.name in over for v in (*b.expr.args, *b.vars)):
                continue
            self._add(_alone(n, b, b.expr))

    @cached_property
    def depends(self) -> _Depends:
        """Made where a pair is worth a look: it grows with the square of the body."""
        return _Depends(self.body)

    def made(self) -> Iterable[Loop]:
        """The loops when no pair spares anything any more."""
        todo = [row for n in self.loops for row in self._pairs(n) if row[1] < row[2]]
        heapify(todo)
        while todo:
            _, a, b = heappop(todo)
            if a in self.loops and b in self.loops:
                both = self._both(self.loops[a], self.loops[b])
                if both is not None:
                    self.depends.join(both.places)
                    del self.loops[a], self.loops[b]
                    for row in self._pairs(self._add(both)):
                        heappush(todo, row)
        return self.loops.values()

    def _add(self, loop: Loop) -> int:
        number = next(self.numbers)
        self.loops[number] = loop
        for name in loop.whole.union(loop.kernel.outputs):
            self.near.setdefault(name, []).append(number)
        return number

    def _pairs(self, n: int) -> Iterator[tuple[int, int, int]]:
        """The bytes that joining it to another would spare, negative, and both numbers."""
        mine = self.loops[n]
        names = mine.whole.union(mine.kernel.outputs)
        found = {m for name in names for m in self.near[name][-NEAREST_LOOPS:]}
        for m in found & self.loops.keys() - {n}:
            spared = self._spared(mine, self.loops[m])
            if spared > 0:
                yield -spared, min(n, m), max(n, m)

    def _spared(self, a: Loop, b: Loop) -> int:
        """What is read together, and what is then made and read inside; 0 where it lies near anyway
        and may not be written over an input either.
        """
        values = {**a.values, **b.values}
        size = {n: bytes_of(v, self.facts.env) for n, v in values.items()}
        made = {*a.kernel.outputs, *b.kernel.outputs}
        if sum(size.values()) <= self.facts.room and not (
            self.facts.results & made and self.facts.inputs & a.whole & b.whole
        ):
            return 0
        places = {*a.places, *b.places}
        found = sum(size[n] for n in a.whole & b.whole)
        for writer, reader in ((a, b), (b, a)):
            for n in reader.whole & {*writer.kernel.outputs}:
                found += size[n] * (2 if self.readers.get(n, set()) <= places else 1)
        return found

    def _both(self, a: Loop, b: Loop) -> Loop | None:
        """Both as one loop; None where they do not fit, or something between needs one and is
        needed by the other.
        """
        if {*a.kernel.inputs} & {*b.kernel.outputs}:
            a, b = b, a
        if {*a.kernel.inputs} & {*b.kernel.outputs}:
            return None
        kernel = joined(a.kernel, b.kernel)
        places = tuple(sorted((*a.places, *b.places)))
        if kernel is None or self.depends.between(places):
            return None
        for name in kernel.outputs:
            if name in self.readers and self.readers[name] <= {*places}:
                kernel = kept_inside(kernel, name)
        names = (*kernel.inputs, *kernel.outputs)
        if len(names) > MOST_TENSORS:
            return None
        values = {**a.values, **b.values}
        return Loop(places, kernel, {n: values[n] for n in names}, _whole(kernel))


def _alone(n: int, binding: Binding, call: KernelCall) -> Loop:
    shared, given = share_inputs(call.kernel, tuple(a.name for a in call.args))
    names = dict(zip(shared.inputs, given, strict=True))
    names |= {t: v.name for t, v in zip(shared.outputs, binding.vars, strict=True)}
    values = {v.name: v for v in (*call.args, *binding.vars)}
    kernel = rename_tensors(shared, names)
    return Loop((n,), kernel, values, _whole(kernel))


def _whole(kernel: Kernel) -> frozenset[str]:
    computes = kernel.computes
    return frozenset(r.tensor for c in computes for r in reads(c.expr) if r.index == c.target)


class _Depends:
    """What each binding of a body depends on, through others too, as bits of a number: those that
    have become one depend on what each of them does.
    """

    def __init__(self, body: Sequence[Binding]) -> None:
        self.on: list[int] = []
        for needed in needs_of(body):
            found = 0
            for at in needed:
                found |= self.on[at] | 1 << at
            self.on.append(found)

    def between(self, places: Sequence[int]) -> bool:
        """Whether something else needs some of them and is needed by others."""
        inside, needed = _mask(places), 0
        for p in places:
            needed |= self.on[p]
        low = min(places)
        return any(self.on[p] & inside for p in _bits((needed & ~inside) >> low, low))

    def join(self, places: Sequence[int]) -> None:
        """These are one from now on."""
        inside, needed = _mask(places), 0
        for p in places:
            needed |= self.on[p]
        for p in range(min(places), len(self.on)):
            if self.on[p] & inside or p in places:
                self.on[p] |= needed | inside


def needs_of(body: Sequence[Binding]) -> list[set[int]]:
    """Which bindings must have run before each: what it reads; of what it writes over, who reads
    it; and what gives a size its name.
    """
    made: dict[str, int] = {}
    root: dict[str, str] = {}  # by a view, the value whose bytes it shows
    readers: dict[str, set[int]] = {}
    sizes: set[int] = set()
    found: list[set[int]] = []
    for n, b in enumerate(body):
        needed = sizes | {made[v.name] for v in b.reads if v.name in made}
        if isinstance(b.expr, KernelCall):
            for _, taken in updates_of(b.expr, b.vars):
                needed |= readers.get(root.get(taken.name, taken.name), set())
        found.append(needed)
        if isinstance(b.expr, View):
            root[b.name] = root.get(b.expr.arg.name, b.expr.arg.name)
        if isinstance(b.expr, MatchCast):
            sizes.add(n)
        for v in b.reads:
            readers.setdefault(root.get(v.name, v.name), set()).add(n)
        made |= {v.name: n for v in b.vars}
    return found


def _mask(places: Sequence[int]) -> int:
    return sum(1 << p for p in places)


def _bits(mask: int, first: int) -> Iterator[int]:
    """The places that are set, counted from `first`."""
    while mask:
        low = mask & -mask
        yield first + low.bit_length() - 1
        mask ^= low
