"""Steps of a function by topological level, with and without recomputed values.

A run says when each step runs and how many bytes are live then. Levels are those of Rammer's waves,
so a recomputed value counts at the level where it will run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from explorer.ir.calls import KernelCall, MatchCast, ShapeOf, Var, View, updates_of
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Tensor
from explorer.transforms.loop_dataflow import needs_of


@dataclass(frozen=True, slots=True)
class BindingStep:
    """A binding with its dependences, bytes and time.

    `needs` are the steps that must run before it, `reads` the steps whose memory it reads; `bytes`
    is its result in memory of its own, which readers of a view of it read too. A view takes no
    time. `repeats` is True if it may be recomputed.
    """

    name: str
    needs: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    bytes: int = 0
    us: float = 0.0
    is_view: bool = False
    repeats: bool = True


@dataclass(frozen=True, slots=True)
class Copy:
    """A recomputed step, `after` another one, right before its first late `reader`."""

    place: int
    after: int
    reader: int


@dataclass(frozen=True, slots=True)
class RunCost:
    """The `live` bytes by level, and the time, of a run."""

    live: tuple[int, ...]
    us: float

    @property
    def peak_bytes(self) -> int:
        """The most bytes at once."""
        return max(self.live, default=0)


class Steps:
    """The steps of a function.

    `peak_level` is the level with the most live bytes. A value made before it and read after it
    could be recomputed.
    """

    def __init__(self, steps: Sequence[BindingStep]) -> None:
        """Compute the level and the readers of each step, and the peak level."""
        self.all = tuple(steps)
        self.level: list[int] = []
        for step in self.all:
            before = max((self.level[n] for n in step.needs), default=0)
            self.level.append(before + (not step.is_view))
        self.readers: list[list[int]] = [[] for _ in self.all]
        for n, step in enumerate(self.all):
            for read in step.reads:
                self.readers[read].append(n)
        self.peak_level = 0
        self.plain = self.run(())
        self.peak_level = self.plain.live.index(self.plain.peak_bytes) if self.plain.live else 0
        self.late = [n for n, level in enumerate(self.level) if level > self.peak_level]

    def is_early(self, place: int) -> bool:
        """Return True if a step ends before the peak."""
        return self.level[place] < self.peak_level

    @property
    def saved(self) -> list[int]:
        """The steps before the peak whose results are read after it."""
        return [
            n
            for n, step in enumerate(self.all)
            if step.bytes and self.is_early(n) and self.read_late(n)
        ]

    def read_late(self, place: int) -> bool:
        """Return True if a step after the peak reads it."""
        return any(self.level[r] > self.peak_level for r in self.readers[place])

    def copies(self, stored: Collection[int]) -> list[Copy]:
        """Return the recomputed steps in an order that they can run in.

        Of the steps before the peak, only those in `stored` store their results.
        """
        recomputed = self._repeated(stored)
        first_readers: dict[int, int] = {}  # by step, its first late reader

        def want(place: int, reader: int) -> None:
            for needed in self.all[place].needs:
                if recomputed[needed]:
                    earliest = first_readers.get(needed, reader)
                    first_readers[needed] = min(earliest, reader, key=self._when)

        for n in self.late:
            want(n, n)
        for n in range(len(self.all) - 1, -1, -1):
            if n in first_readers:
                want(n, first_readers[n])
        return [
            Copy(n, self._latest_stored_operand(reader, recomputed), reader)
            for n, reader in sorted(first_readers.items())
        ]

    def _repeated(self, stored: Collection[int]) -> list[bool]:
        """Return for each step whether it is recomputed."""
        recomputed: list[bool] = []
        for n, step in enumerate(self.all):
            if step.is_view:
                recomputed.append(step.repeats and any(recomputed[m] for m in step.needs))
            else:
                recomputed.append(step.repeats and self.is_early(n) and n not in stored)
        return recomputed

    def _when(self, place: int) -> tuple[int, int]:
        return self.level[place], place

    def _latest_stored_operand(self, reader: int, recomputed: Sequence[bool]) -> int:
        """Return the latest of a reader's stored operands: the adjoint."""
        others = [n for n in self.all[reader].needs if not recomputed[n]]
        return max(others, key=self._when, default=-1)

    def run(self, copies: Sequence[Copy]) -> RunCost:
        """Return the run with these copies, each as early as possible."""
        copy_numbers = {copy.place: len(self.all) + k for k, copy in enumerate(copies)}
        level = [*self.level, *(0 for _ in copies)]
        last, begin = dict[int, int](), dict[int, int]()
        for n, place, after in self._order(copies):
            step, is_late = self.all[place], n != place or self.level[place] > self.peak_level
            renumbered = copy_numbers if copy_numbers and is_late else {}
            before = [level[renumbered.get(m, m)] for m in step.needs]
            before += [level[after]] if after >= 0 else []
            level[n] = max(before, default=0) + (not step.is_view)
            begin[n] = last[n] = level[n]
            for read in step.reads:
                root = renumbered.get(read, read)
                last[root] = max(last[root], level[n])
        added = [0] * (max(level, default=0) + 2)
        for n, first in begin.items():
            size = self.all[n if n < len(self.all) else copies[n - len(self.all)].place].bytes
            added[first] += size
            added[last[n] + 1] -= size
        us = sum(s.us for s in self.all) + sum(self.all[c.place].us for c in copies)
        return RunCost(tuple(accumulate(added[:-1])), us)

    def _order(self, copies: Sequence[Copy]) -> Iterator[tuple[int, int, int]]:
        """Yield (number, place, what it comes after), every step behind those that it needs.

        A copy stands before the readers of its level.
        """
        count = len(self.all)
        rows = [((level, 1, n), n, n, -1) for n, level in enumerate(self.level)]
        rows += [
            ((self.level[c.reader], 0, c.place), count + k, c.place, c.after)
            for k, c in enumerate(copies)
        ]
        for _, n, place, after in sorted(rows):
            yield n, place, after

    def crossing(self) -> Mapping[int, list[int]]:
        """Return the live steps at each level before the peak, by readers up to the peak."""
        live: dict[int, list[int]] = {level: [] for level in range(1, self.peak_level)}
        for n in range(len(self.all)):
            if not self.is_early(n) or not self.all[n].bytes:
                continue
            reads = (self.level[r] for r in self.readers[n] if self.level[r] <= self.peak_level)
            for level in range(self.level[n], max(reads, default=0)):
                live[level].append(n)
        return {level: places for level, places in live.items() if level}


def steps_of(program: Program, function: Function) -> Steps:
    """Return the steps of a tiled function, at the sizes that its symbols hint at."""
    tilings = {t.binding: t for t in program.decisions.tilings}
    return _StepBuilder(function, program.env, tilings).steps()


class _StepBuilder:
    """A walk over a function that records each value's producer and the memory it lies in."""

    def __init__(
        self, function: Function, env: ShapeEnv, tilings: Mapping[str, TilingDecision]
    ) -> None:
        self.function, self.env, self.tilings = function, env, tilings
        self.needs = needs_of(function.body)
        self.home: dict[str, int] = {}  # by value, the step that allocates its memory
        self.readers: dict[int, list[int]] = {}
        self.over = self._in_memory_of(written_over(function.body))
        self.outputs = self._in_memory_of({v.name for v in function.outputs})

    def _in_memory_of(self, names: set[str] | frozenset[str]) -> set[str]:
        """Return these values and all values that they are views of."""
        closure = {*names}
        for b in reversed(self.function.body):
            if isinstance(b.expr, View | MatchCast) and b.var.name in closure:
                closure.add(b.expr.arg.name)
        return closure

    def steps(self) -> Steps:
        """Return a step for each binding."""
        return Steps([self.step(n, b) for n, b in enumerate(self.function.body)])

    def step(self, n: int, b: Binding) -> BindingStep:
        """Return the step of a binding."""
        match b.expr:
            case View(arg) | MatchCast(arg):
                self._share_memory(b.var, arg)
                moves = isinstance(b.expr, View) and arg.name not in self.over
                return BindingStep(b.name, tuple(self.needs[n]), is_view=True, repeats=moves)
            case ShapeOf():
                return BindingStep(b.name, tuple(self.needs[n]), is_view=True, repeats=False)
            case KernelCall() as call:
                return self.kernel(n, b, call)
        return self.other(n, b, False)

    def kernel(self, n: int, b: Binding, call: KernelCall) -> BindingStep:
        """Return the step of a kernel call, placed after the readers of memory it overwrites."""
        needs = set(self.needs[n])
        pairs = updates_of(call, b.vars)
        for var, arg in pairs:
            self._share_memory(var, arg)
            needs |= {*self.readers.get(self.home.get(arg.name, -1), ())}
        self.needs[n] = sorted(needs)
        return self.other(n, b, not pairs and not any(v.name in self.over for v in b.reads))

    def other(self, n: int, b: Binding, repeats: bool) -> BindingStep:
        """Return a step whose results have their own memory.

        The function's outputs do not count.
        """
        own = [v for v in b.vars if v.name not in self.home]
        self.home |= {v.name: n for v in own}
        reads = tuple(sorted({self.home[v.name] for v in b.reads if v.name in self.home}))
        for read in reads:
            self.readers.setdefault(read, []).append(n)
        size = sum(self._bytes(v) for v in own if v.name not in self.outputs)
        can_repeat = repeats and not any(v.name in self.over for v in b.vars)
        return BindingStep(
            b.name, tuple(self.needs[n]), reads, size, self._us(b.name), False, can_repeat
        )

    def _share_memory(self, var: Var, arg: Var) -> None:
        if arg.name in self.home:
            self.home[var.name] = self.home[arg.name]

    def _bytes(self, var: Var) -> int:
        has_size = isinstance(var.type, Tensor) and var.type.is_known and var.type.dtype is not None
        return self.env.hint(var.tensor.bytes) if has_size else 0

    def _us(self, name: str) -> float:
        """Return the measured time, or else the predicted one; a finite number."""
        tiling = self.tilings.get(name)
        if tiling is None:
            return 0.0
        if tiling.measured:
            return tiling.measured[0].measured_us
        terms = next((c.terms for c in tiling.candidates if c.value == tiling.chosen), ())
        return sum(us for _, us in terms)  # also of a tiling that no rule allows: it runs
