"""Shape heap of a function, and the checks that fill it (Relax, section 4.5: shape checks).

There is one slot for each distinct extent of its parameters, match_casts and results.

    f(x: float32[n, m], y: float32[... 3]): z: float32[k, m, k + 1] = match_cast(y)
    ->  slots n, m, k, k + 1;  entry: STORE n, STORE m;  z: STORE k, ASSERT_EQ_LOAD m, NO_OP, then
        COMPUTE k + 1, and in the second round ASSERT_EQ_LOAD k + 1
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from explorer.ir.annotations import dims_of, rank_of
from explorer.ir.calls import MatchCast, Var
from explorer.ir.compiled_dims import Evaluator, compile_dims
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbols_of, sympy
from explorer.ir.program import Function
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType
from explorer.process.forking import ForkLock


class Op(Enum):
    """The operation of a shape heap's instruction."""

    STORE = "STORE"  # the extent is the symbol's value
    ASSERT_EQ_IMM = "ASSERT_EQ_IMM"  # the extent is a number
    ASSERT_EQ_LOAD = "ASSERT_EQ_LOAD"  # the extent equals the slot's value
    NO_OP = "NO_OP"  # not computable yet: remembered for the second round
    COMPUTE = "COMPUTE"  # evaluate an expression whose symbols are known
    RECALL = "RECALL"  # an extent that an earlier point could not judge is now checked
    BOUND = "BOUND"  # the symbol is within its bounds


class Subject(NamedTuple):
    """One tensor or shape that a point checks: which of its values, and where in a tuple."""

    place: int
    value: int
    path: tuple[int, ...]
    name: str
    what: str  # as in "the input 'x'"
    type: Annotation
    dtype: str | None
    rank: int | None


class Instruction(NamedTuple):
    """One step: `place` and `axis` select a subject's extent, `slot` the position in the heap."""

    op: Op
    place: int
    axis: int
    slot: int
    dim: Dim
    subject: Subject
    bound: SymbolBound | None = None


@dataclass(frozen=True, slots=True)
class CheckPoint:
    """The entry with all parameters, one match_cast, or the return."""

    kind: str  # "entry", "match_cast" or "return"
    name: str
    values: tuple[Var, ...]
    subjects: tuple[Subject, ...]
    first: tuple[Instruction, ...]
    computed: tuple[Instruction, ...]
    second: tuple[Instruction, ...]
    defines: tuple[tuple[str, int], ...]  # a symbol and its slot
    compute: Evaluator | None = field(default=None, compare=False)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All of them, in order."""
        return (*self.first, *self.computed, *self.second)

    def __str__(self) -> str:
        """Return the kind and the name."""
        return f"{'match_cast' if self.kind == 'match_cast' else f'{self.kind} of'} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ShapeHeap:
    """The slots of a function, and the points that fill and check them, in order.

    `caller_slots` are the symbols that a body has from its caller, with their slots.
    """

    function: str
    slots: tuple[Dim, ...]
    entry: CheckPoint
    casts: Mapping[str, CheckPoint]
    leave: CheckPoint
    caller_slots: tuple[tuple[str, int], ...] = ()

    @property
    def points(self) -> tuple[CheckPoint, ...]:
        """Every check point, in the order of a call."""
        return (self.entry, *self.casts.values(), self.leave)


_Key = tuple[int, int, frozenset[str], bool]
_heaps: OrderedDict[_Key, tuple[Function, ShapeEnv, ShapeHeap]] = OrderedDict()
_lock = ForkLock()
_MOST = 4096


def heap_of(
    function: Function, env: ShapeEnv, caller_symbols: Iterable[str] = (), *, inputs: bool = False
) -> ShapeHeap:
    """Return the shape heap of a function, built once.

    `caller_symbols` are the caller's symbols that a branch arm or a loop body sees. With `inputs`,
    errors call the parameters inputs of the program.
    """
    key = (id(function), id(env), frozenset(caller_symbols), inputs)
    cached = _heaps.get(key)
    if cached is not None and cached[0] is function and cached[1] is env:
        return cached[2]
    heap = _Writer(function, env, frozenset(caller_symbols), inputs).heap()
    with _lock:
        _heaps[key] = (function, env, heap)
        while len(_heaps) > _MOST:
            _heaps.popitem(last=False)
    return heap


class _Writer:
    """One function's heap being written, with the symbols known at this point of the walk."""

    def __init__(
        self, function: Function, env: ShapeEnv, caller_symbols: frozenset[str], inputs: bool
    ) -> None:
        """Assign the slots, and count the unknown symbols of each expression."""
        self.function, self.inputs = function, inputs
        self.bounds = {s.name: s for s in env.symbols}
        self.casts = [b.var for b in function.body if isinstance(b.expr, MatchCast)]
        self.slots: dict[sympy.Expr, int] = {}
        for var in (*function.params, *self.casts, *function.outputs):
            for _, leaf in _leaves(var.type):
                for dim in dims_of(leaf) or ():
                    if not isinstance(dim, int):
                        self.slots.setdefault(dim, len(self.slots))
        self.caller_symbols = caller_symbols & {n for dim in self.slots for n in symbols_of(dim)}
        self.known_symbols: set[str] = set()
        self.bare = {d.name: d for d in self.slots if d.is_Symbol}
        self.filled = {d for n, d in self.bare.items() if n in self.caller_symbols}
        self.claimed: dict[sympy.Expr, Instruction] = {}
        self.missing = {d: len(symbols_of(d)) for d in self.slots if not d.is_Symbol}
        self.waiting: dict[str, list[sympy.Expr]] = {}
        for dim in self.missing:
            for name in sorted(symbols_of(dim)):
                self.waiting.setdefault(name, []).append(dim)

    def heap(self) -> ShapeHeap:
        f = self.function
        of = f" of {f.name!r}"
        called = ("the input", "") if self.inputs else ("the parameter", of)
        entry = self.point("entry", f.name, f.params, called, sorted(self.caller_symbols))
        casts = {
            v.name: self.point("match_cast", v.name, (v,), ("the match_cast", ""))
            for v in self.casts
        }
        leave = self.point("return", f.name, f.outputs, ("the result", of))
        caller_slots = tuple(
            (n, self.slots[d]) for n, d in self.bare.items() if n in self.caller_symbols
        )
        return ShapeHeap(f.name, tuple(self.slots), entry, casts, leave, caller_slots)

    def point(
        self,
        kind: str,
        name: str,
        values: tuple[Var, ...],
        called: tuple[str, str],
        caller_symbols: Iterable[str] = (),
    ) -> CheckPoint:
        subjects = tuple(_subjects(values, called))
        ready: list[sympy.Expr] = []
        for symbol in caller_symbols:
            self.learn(symbol, ready)
        first: list[Instruction] = []
        for subject in subjects:
            for axis, dim in enumerate(dims_of(subject.type) or ()):
                first.append(self.check(subject, axis, dim, ready))
        stored = [(i, str(i.dim)) for i in first if i.op is Op.STORE]
        computed = [self.compute(dim) for dim in ready]
        second = [self.second_round(i) for i in first if i.op is Op.NO_OP]
        second += [_bounded(i, self.bounds[n]) for i, n in stored if n in self.bounds]
        return CheckPoint(
            kind,
            name,
            values,
            subjects,
            tuple(first),
            tuple(computed),
            tuple(second),
            tuple((n, i.slot) for i, n in stored),
            compile_dims(ready) if ready else None,
        )

    def check(self, subject: Subject, axis: int, dim: Dim, ready: list[sympy.Expr]) -> Instruction:
        """Return the first round's instruction for one extent."""
        if isinstance(dim, int):
            return Instruction(Op.ASSERT_EQ_IMM, subject.place, axis, -1, dim, subject)
        op = Op.NO_OP
        if dim in self.filled:
            op = Op.ASSERT_EQ_LOAD
        elif isinstance(dim, sympy.Symbol):
            op = Op.STORE
            self.learn(dim.name, ready)
            self.filled.add(dim)
        return Instruction(op, subject.place, axis, self.slots[dim], dim, subject)

    def learn(self, name: str, ready: list[sympy.Expr]) -> None:
        """Mark a symbol as known; expressions that waited for it alone become computable."""
        if name in self.known_symbols:
            return
        self.known_symbols.add(name)
        for dim in self.waiting.get(name, ()):
            self.missing[dim] -= 1
            if self.missing[dim] == 0:
                ready.append(dim)

    def compute(self, dim: sympy.Expr) -> Instruction:
        claim = self.claimed.get(dim)
        self.filled.add(dim)
        if claim is not None:
            return claim._replace(op=Op.RECALL)
        return Instruction(Op.COMPUTE, -1, -1, self.slots[dim], dim, _NOTHING)

    def second_round(self, first: Instruction) -> Instruction:
        """Return the second round's instruction.

        An extent that is not yet computable waits for a later point.
        """
        if first.dim in self.filled:
            return first._replace(op=Op.ASSERT_EQ_LOAD)
        self.filled.add(first.dim)
        self.claimed[first.dim] = first
        return first._replace(op=Op.STORE)


def _bounded(stored: Instruction, bound: SymbolBound) -> Instruction:
    return stored._replace(op=Op.BOUND, bound=bound)


_NOTHING = Subject(-1, -1, (), "", "", Tensor(), None, None)


def _leaves(
    annotation: Annotation, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Annotation]]:
    """Yield the annotations within tuples, and their paths."""
    if isinstance(annotation, TupleType):
        for at, item in enumerate(annotation.items):
            yield from _leaves(item, (*path, at))
    else:
        yield path, annotation


def _subjects(values: tuple[Var, ...], called: tuple[str, str]) -> Iterator[Subject]:
    count = 0
    for at, var in enumerate(values):
        for path, leaf in _leaves(var.type):
            if isinstance(leaf, Tensor | ShapeType):
                what = f"{called[0]} {var.name!r}{''.join(f' at {i}' for i in path)}{called[1]}"
                dtype = leaf.dtype if isinstance(leaf, Tensor) else None
                yield Subject(count, at, path, var.name, what, leaf, dtype, rank_of(leaf))
                count += 1
