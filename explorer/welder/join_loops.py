"""Horizontal fusion of maps: the pair that saves most traffic first, while there is one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from explorer.cached_property import cached_property
from explorer.ir.calls import KernelCall, Loop, MatchCast, Var, View, updates_of
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel, reads, rename_tensors
from explorer.ir.kernels.in_place import written_over
from explorer.ir.kernels.merge import inline_output, join_kernels, maps_one_grid, share_inputs
from explorer.ir.kernels.scatter import row_copy
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Tensor

MOST_TENSORS = 16  # of one loop: each is an address to advance; chosen
NEAREST_LOOPS = 32  # last loops tried per value: a bound on search time, chosen


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a function that joining depends on.

    They are the rows that a loop reads in place, so that no kernel copies them; the symbols; the
    bytes of memory near the units; and the inputs and results of the program.
    """

    rows: frozenset[str]
    env: ShapeEnv
    room: int
    inputs: frozenset[str]
    results: frozenset[str]


def ends(function: Function, program: Program) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the program's inputs and results, if the function is its main one."""
    if function.name != program.main.name:
        return frozenset(), frozenset()
    results = frozenset(v.name for v in function.outputs)
    return frozenset(p.name for p in function.params), results


@dataclass(frozen=True, slots=True)
class JoinableLoop:
    """Kernels that have been fused into one.

    It has their places, the kernel, whose tensors are named after values, and these values.
    `pointwise` are those that are read at the element that is written.
    """

    places: tuple[int, ...]
    kernel: Kernel
    values: Mapping[str, Var]
    pointwise: frozenset[str]


def join_loops(function: Function, facts: Facts) -> list[JoinableLoop]:
    """Return the kernels of a function that were fused with another."""
    choice = _Fusion(function, facts)
    return [loop for loop in choice.fuse() if len(loop.places) > 1]


def bytes_of(v: Var, env: ShapeEnv) -> int:
    """Return the bytes of a value under the hints, 0 if its shape or dtype is not known."""
    is_known = isinstance(v.type, Tensor) and v.type.is_known
    return env.hint(v.type.bytes) if is_known and isinstance(v.type, Tensor) else 0


class _Fusion:
    """The loops of a function while they are fused, by number."""

    def __init__(self, function: Function, facts: Facts) -> None:
        self.body, self.facts = function.body, facts
        self.numbers = count(len(self.body))
        self.readers: dict[str, set[int]] = {v.name: {len(self.body)} for v in function.outputs}
        for n, b in enumerate(self.body):
            for v in b.reads:
                self.readers.setdefault(v.name, set()).add(n)
        self.loops: dict[int, JoinableLoop] = {}
        self.near: dict[str, list[int]] = {}  # loops that read a value pointwise, or write it
        over = written_over(self.body)
        for n, b in enumerate(self.body):
            if not isinstance(b.expr, KernelCall) or not maps_one_grid(b.expr.kernel):
                continue
            if b.name in facts.rows or any(v.name in over for v in (*b.expr.args, *b.vars)):
                continue
            self._add(_single_loop(n, b, b.expr))

    @cached_property
    def depends(self) -> _Depends:
        """Return the dependences, computed on first use: they grow with the square of the body."""
        return _Depends(self.body)

    def fuse(self) -> Iterable[JoinableLoop]:
        """Fuse pairs until none saves anything any more, and return the loops."""
        todo = [row for n in self.loops for row in self._pairs(n) if row[1] < row[2]]
        heapify(todo)
        while todo:
            _, a, b = heappop(todo)
            if a in self.loops and b in self.loops:
                both = self._fused(self.loops[a], self.loops[b])
                if both is not None:
                    self.depends.join(both.places)
                    del self.loops[a], self.loops[b]
                    for row in self._pairs(self._add(both)):
                        heappush(todo, row)
        return self.loops.values()

    def _add(self, loop: JoinableLoop) -> int:
        number = next(self.numbers)
        self.loops[number] = loop
        for name in loop.pointwise.union(loop.kernel.outputs):
            self.near.setdefault(name, []).append(number)
        return number

    def _pairs(self, n: int) -> Iterator[tuple[int, int, int]]:
        """Yield the bytes that fusing with another loop would save, negative, and both numbers."""
        mine = self.loops[n]
        names = mine.pointwise.union(mine.kernel.outputs)
        candidates = {m for name in names for m in self.near[name][-NEAREST_LOOPS:]}
        for m in candidates & self.loops.keys() - {n}:
            spared = self._saved_bytes(mine, self.loops[m])
            if spared > 0:
                yield -spared, min(n, m), max(n, m)

    def _saved_bytes(self, a: JoinableLoop, b: JoinableLoop) -> int:
        """Return the bytes of shared reads, and of values that become internal.

        It is 0 if all of it stays in near memory anyway and no output could overwrite an input.
        """
        values = {**a.values, **b.values}
        size = {n: bytes_of(v, self.facts.env) for n, v in values.items()}
        produced = {*a.kernel.outputs, *b.kernel.outputs}
        if sum(size.values()) <= self.facts.room and not (
            self.facts.results & produced and self.facts.inputs & a.pointwise & b.pointwise
        ):
            return 0
        places = {*a.places, *b.places}
        saved = sum(size[n] for n in a.pointwise & b.pointwise)
        for writer, reader in ((a, b), (b, a)):
            for n in reader.pointwise & {*writer.kernel.outputs}:
                saved += size[n] * (2 if self.readers.get(n, set()) <= places else 1)
        return saved

    def _fused(self, a: JoinableLoop, b: JoinableLoop) -> JoinableLoop | None:
        """Return both as one loop, or None if they do not fit.

        They do not fit either if something between needs one and is needed by the other.
        """
        if {*a.kernel.inputs} & {*b.kernel.outputs}:
            a, b = b, a
        if {*a.kernel.inputs} & {*b.kernel.outputs}:
            return None
        kernel = join_kernels(a.kernel, b.kernel)
        places = tuple(sorted((*a.places, *b.places)))
        if kernel is None or self.depends.between(places):
            return None
        for name in kernel.outputs:
            if name in self.readers and self.readers[name] <= {*places}:
                kernel = inline_output(kernel, name)
        names = (*kernel.inputs, *kernel.outputs)
        if len(names) > MOST_TENSORS:
            return None
        values = {**a.values, **b.values}
        return JoinableLoop(places, kernel, {n: values[n] for n in names}, _pointwise_reads(kernel))


def _single_loop(n: int, binding: Binding, call: KernelCall) -> JoinableLoop:
    shared, names_of_args = share_inputs(call.kernel, tuple(a.name for a in call.args))
    names = dict(zip(shared.inputs, names_of_args, strict=True))
    names |= {t: v.name for t, v in zip(shared.outputs, binding.vars, strict=True)}
    values = {v.name: v for v in (*call.args, *binding.vars)}
    kernel = rename_tensors(shared, names)
    return JoinableLoop((n,), kernel, values, _pointwise_reads(kernel))


def _pointwise_reads(kernel: Kernel) -> frozenset[str]:
    computes = kernel.computes
    return frozenset(r.tensor for c in computes for r in reads(c.expr) if r.index == c.target)


class _Depends:
    """The transitive dependences of each binding of a body, as bits of a number.

    Fused bindings have the dependences of all their members.
    """

    def __init__(self, body: Sequence[Binding]) -> None:
        self.on: list[int] = []
        for needed in needs_of(body):
            mask = 0
            for at in needed:
                mask |= self.on[at] | 1 << at
            self.on.append(mask)

    def between(self, places: Sequence[int]) -> bool:
        """Return True if something else needs some of them and is needed by others."""
        inside, needed = _mask(places), 0
        for p in places:
            needed |= self.on[p]
        low = min(places)
        return any(self.on[p] & inside for p in _bits((needed & ~inside) >> low, low))

    def join(self, places: Sequence[int]) -> None:
        """Record that some bindings are one from now on."""
        inside, needed = _mask(places), 0
        for p in places:
            needed |= self.on[p]
        for p in range(min(places), len(self.on)):
            if self.on[p] & inside or p in places:
                self.on[p] |= needed | inside


def needs_of(body: Sequence[Binding]) -> list[set[int]]:
    """Return the bindings that must run before each binding.

    They define what it reads, read what it overwrites, or define its symbols.
    """
    definitions: dict[str, int] = {}
    root: dict[str, str] = {}  # by view, the value that it aliases
    readers: dict[str, set[int]] = {}
    sizes: set[int] = set()
    needs: list[set[int]] = []
    for n, b in enumerate(body):
        needed = sizes | {definitions[v.name] for v in b.reads if v.name in definitions}
        if isinstance(b.expr, KernelCall):
            for _, taken in updates_of(b.expr, b.vars):
                needed |= readers.get(root.get(taken.name, taken.name), set())
        needs.append(needed)
        if isinstance(b.expr, View):
            root[b.name] = root.get(b.expr.arg.name, b.expr.arg.name)
        if isinstance(b.expr, MatchCast):
            sizes.add(n)
        for v in b.reads:
            readers.setdefault(root.get(v.name, v.name), set()).add(n)
        definitions |= {v.name: n for v in b.vars}
    return needs


def _mask(places: Sequence[int]) -> int:
    return sum(1 << p for p in places)


def _bits(mask: int, first: int) -> Iterator[int]:
    """Yield the positions that are set, counted from `first`."""
    while mask:
        low = mask & -mask
        yield first + low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, slots=True)
class _Trip:
    """The values of a loop's body that depend on the iteration only, or are loop-invariant."""

    counts: frozenset[str]
    outside: frozenset[str]


def loop_rows(function: Function, program: Program) -> frozenset[str]:
    """Return the values of a function that are rows of loop-invariant values.

    The function is a loop's body, and the row's index depends on the iteration only.
    """
    loops = [
        b.expr
        for _, b in program.bindings()
        if isinstance(b.expr, Loop) and b.expr.body == function.name
    ]
    if not loops:
        return frozenset()
    first = 2 + max(len(loop.state) for loop in loops)
    outside = {p.name for p in function.params[first:]} | program.constants.keys()
    trip = _Trip(_counts(function, program), frozenset(outside))
    calls = (b for b in function.body if isinstance(b.expr, KernelCall))
    return frozenset(b.name for b in calls if _is_row(b, b.kernel_call, trip))


def _counts(function: Function, program: Program) -> frozenset[str]:
    """Return scalars that are computed from the iteration and constants only."""
    iteration_scalars = {function.params[0].name} | program.constants.keys()
    for binding in function.body:
        call = binding.expr
        if not isinstance(call, KernelCall) or not _is_scalar(call.kernel):
            continue
        if all(a.name in iteration_scalars for a in call.args):
            iteration_scalars.update(v.name for v in binding.vars)
    return frozenset(iteration_scalars)


def _is_scalar(kernel: Kernel) -> bool:
    return all(not c.axes and not c.reduce for c in kernel.computes)


def _is_row(binding: Binding, call: KernelCall, trip: _Trip) -> bool:
    copy = row_copy(call.kernel)
    if copy is None:
        return False
    arg_names = dict(zip(call.kernel.inputs, (a.name for a in call.args), strict=True))
    (compute,) = call.kernel.computes
    within: Collection[str] = {arg_names[r.tensor] for r in reads(compute.expr)} - {
        arg_names[copy.tensor]
    }
    return (
        arg_names[copy.tensor] in trip.outside and bool(within) and trip.counts.issuperset(within)
    )
