"""Random programs of graph operators, as an importer would leave them: nothing is annotated but the
inputs, the extents are numbers and symbols, some are known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.ir.calls import Branch, Expr, FunctionCall, Loop, MatchCast, OpCall, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, product, symbol
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.types import Tensor
from tests.strategies.choices import Choices, Refused, generator

n, m = symbol("n"), symbol("m")
EXTENTS: list[Dim] = [0, 1, 2, 3, 5, 7, n, m]
OWN = ("p", "q", "r", "s")  # symbols of called functions
ROOM = 1e6  # integers below are exact in float32, in whatever order they are added
END = (1 << 63) - 1
CUTS = [(0, END, 2), (1, END, 1), (0, -1, 1), (-2, END, 1), (-1, -END, -1), (0, 2, 1), (2, 1, 1)]


@dataclass(frozen=True)
class Value:
    """A value as the writer knows it; `size` bounds its elements where they are whole numbers."""

    var: Var
    shape: tuple[Dim, ...]
    dtype: str = "float32"
    size: float | None = 3.0

    @property
    def exact(self) -> bool:
        """Whether every stage computes the very same elements."""
        return self.size is not None and self.size < ROOM

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Inner:
    """The body of a branch or a loop."""

    name: str
    writer: Writer
    body: list[Binding] = field(default_factory=list)

    def op(self, name: str, args: Sequence[Var], **attrs: Any) -> list[Var]:
        """An operator."""
        return self.writer.bind(OpCall(name, tuple(args), tuple(attrs.items())), into=self.body)


@dataclass
class Writer:
    """Draws one binding after the other; each is valid whatever the symbols are."""

    choices: Choices
    params: list[Value] = field(default_factory=list)
    body: list[Binding] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    sources: list[SourceOp] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    begun: int = 0
    found: list[str] = field(default_factory=list)  # symbols that match_casts define

    # What values are made of.

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value that fits, late ones first; Refused where there is none."""
        found = [v for v in self.values if fits(v)]
        if not found:
            raise Refused
        return self.choices.one(found[::-1])

    def param(self, shape: tuple[Dim, ...], dtype: str = "float32") -> Value:
        made = Value(Var(f"x{len(self.params)}", Tensor(shape, dtype)), shape, dtype)
        self.params.append(made)
        self.values.append(made)
        return made

    def constant(self, elements: Any, dtype: str = "int64") -> Var:
        array = np.array(elements, dtype)
        name = f"c{len(self.constants)}"
        self.constants[name] = Constant(array)
        return Var(name, self.constants[name].type)

    def op(self, name: str, args: Sequence[Value | Var | None], **attrs: Any) -> list[Var]:
        """An operator."""
        given = tuple(a.var if isinstance(a, Value) else a for a in args)
        return self.bind(OpCall(name, given, tuple(attrs.items())))

    def bind(self, expr: Expr, results: int = 1, into: list[Binding] | None = None) -> list[Var]:
        """Values of which nothing is known."""
        name = expr.op if isinstance(expr, OpCall) else type(expr).__name__
        source = f"{name}_{len(self.sources)}"
        self.sources.append(SourceOp(source, name))
        vars = tuple(Var(f"{source}.{i}", Tensor()) for i in range(results))
        body = self.body if into is None else into
        body.append(Binding(vars, expr, frozenset({source})))
        return list(vars)

    def add(self, var: Var, shape: Sequence[Dim], dtype: str, size: float | None) -> Value:
        made = Value(var, tuple(shape), dtype, size)
        self.values.append(made)
        return made

    def unknown(self) -> Dim:
        """An extent of which the writer knows only that it is itself."""
        return symbol(f"?{len(self.sources)}.{len(self.values)}")

    # One operator, or the few that belong together.

    def unary(self) -> None:
        x = self.pick(lambda v: v.dtype == "float32")
        op = self.choices.one(["Relu", "Neg", "Abs", "Tanh", "Sigmoid"])
        size = None if op in ("Tanh", "Sigmoid") else x.size
        self.add(self.op(op, [x])[0], x.shape, "float32", size)

    def partner(self, a: Value) -> Value:
        """A value that broadcasts with another one: one that is there, or a new input."""
        fits = [
            v for v in self.values if v.dtype == a.dtype and _together(a.shape, v.shape) is not None
        ]
        if any(_is_foreign(d) for d in a.shape) or a.dtype != "float32" or self.choices.chance():
            return self.choices.one(fits[::-1])
        kept = self.choices.number(0, a.rank)
        shape = tuple(d if self.choices.chance() else 1 for d in a.shape[kept:])
        return self.param(shape)

    def binary(self) -> None:
        a = self.pick(lambda v: v.dtype in ("float32", "int64"))
        b = self.partner(a)
        if self.choices.chance():
            a, b = b, a
        op = self.choices.one(["Add", "Sub", "Mul", "Max", "Min"])
        size = None
        if a.size is not None and b.size is not None:
            size = a.size * b.size if op == "Mul" else a.size + b.size
        shape = _together(a.shape, b.shape)
        assert shape is not None
        self.add(self.op(op, [a, b])[0], shape, a.dtype, size)

    def where(self) -> None:
        a = self.pick(lambda v: v.exact and v.dtype == "float32")
        b = self.partner(a)
        if not b.exact:
            return
        shape = _together(a.shape, b.shape)
        assert shape is not None
        flag = self.op(self.choices.one(["Greater", "LessOrEqual", "Equal"]), [a, b])[0]
        self.add(self.op("Where", [flag, a, b])[0], shape, a.dtype, max(a.size or 0, b.size or 0))
        self.add(flag, shape, "bool", 1.0)

    def matmul(self) -> None:
        a = self.pick(lambda v: v.rank >= 2 and v.dtype == "float32")
        size = None if a.size is None else a.size * max(a.size, 3.0) * 50
        if _is_foreign(a.shape[-1]) or self.choices.chance():
            perm = (*range(a.rank - 2), a.rank - 1, a.rank - 2)
            turned = self.op("Transpose", [a], perm=perm)[0]
            made = self.op("MatMul", [a, turned])[0]
            shape = (*a.shape[:-1], a.shape[-2])
        else:
            width = self.choices.one(EXTENTS)
            made = self.op("MatMul", [a, self.param((a.shape[-1], width))])[0]
            shape = (*a.shape[:-1], width)
        self.add(made, shape, "float32", size)

    def reduce(self) -> None:
        x = self.pick(lambda v: v.dtype == "float32" and v.rank > 0)
        op = self.choices.one(["ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin"])
        c = self.choices
        axes = [a for a in range(x.rank) if c.chance()] or [c.number(0, x.rank - 1)]
        keep = self.choices.chance()
        given = [a - x.rank if self.choices.chance() else a for a in axes]
        made = self.op(op, [x, self.constant(given)], keepdims=int(keep))[0]
        shape = [1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes]
        size = None if op == "ReduceMean" or x.size is None else x.size * 1000
        self.add(made, shape, "float32", size)

    def reshape(self) -> None:
        x = self.pick()
        if x.rank < 2 or self.choices.chance():
            rows = self.choices.number(0, 2)
            made = self.op("Reshape", [x, self.constant([1] * rows + [-1])])[0]
            self.add(made, (*(1,) * rows, product(x.shape)), x.dtype, x.size)
            return
        shape = self.op("Shape", [x])[0]
        at = self.choices.number(0, x.rank - 2)
        head = self.op("Slice", [shape, self.constant([0]), self.constant([at])])[0]
        two = self.op("Slice", [shape, self.constant([at]), self.constant([at + 2])])[0]
        tail = self.op("Slice", [shape, self.constant([at + 2]), self.constant([END])])[0]
        joined = self.op("ReduceProd", [two, self.constant([0])], keepdims=1)[0]
        dims = self.op("Concat", [head, joined, tail], axis=0)[0]
        made = self.op("Reshape", [x, dims], allowzero=1)[0]
        merged = product(x.shape[at : at + 2])
        self.add(made, (*x.shape[:at], merged, *x.shape[at + 2 :]), x.dtype, x.size)

    def transpose(self) -> None:
        x = self.pick()
        perm = tuple(self.choices.permutation(x.rank))
        made = self.op("Transpose", [x], perm=perm)[0]
        self.add(made, [x.shape[p] for p in perm], x.dtype, x.size)

    def concat(self) -> None:
        x = self.pick(lambda v: v.rank > 0)
        axis = self.choices.number(0, x.rank - 1)

        def fits(v: Value) -> bool:
            same = v.rank == x.rank and v.dtype == x.dtype
            return same and all(
                a == axis or p == q for a, (p, q) in enumerate(zip(v.shape, x.shape))
            )

        parts = [x, *(self.pick(fits) for _ in range(self.choices.number(0, 2)))]
        made = self.op("Concat", parts, axis=axis)[0]
        long = sum((p.shape[axis] for p in parts), 0 * n)
        total = int(long) if long.is_Integer else long
        sizes = [p.size for p in parts]
        size = None if None in sizes else max(s for s in sizes if s is not None)
        self.add(made, (*x.shape[:axis], total, *x.shape[axis + 1 :]), x.dtype, size)

    def slice(self) -> None:
        x = self.pick(lambda v: v.rank > 0)
        axis = self.choices.number(0, x.rank - 1)
        start, end, step = self.choices.one(CUTS)
        given = [self.constant([v]) for v in (start, end, axis, step)]
        made = self.op("Slice", [x, *given])[0]
        extent = x.shape[axis]
        long = len(range(extent)[start:end:step]) if isinstance(extent, int) else self.unknown()
        self.add(made, (*x.shape[:axis], long, *x.shape[axis + 1 :]), x.dtype, x.size)

    def gather(self) -> None:
        x = self.pick(lambda v: any(isinstance(d, int) and d > 0 for d in v.shape))
        axis = self.choices.one([a for a, d in enumerate(x.shape) if isinstance(d, int) and d > 0])
        extent = int(x.shape[axis])
        places = range(-extent, extent)
        c = self.choices
        indices = c.some(places, 0, 3) if c.chance() else c.one(places)
        made = self.op("Gather", [x, self.constant(indices)], axis=axis)[0]
        shape = (*x.shape[:axis], *np.shape(indices), *x.shape[axis + 1 :])
        self.add(made, shape, x.dtype, x.size)

    def softmax(self) -> None:
        x = self.pick(lambda v: v.rank > 0 and v.dtype == "float32")
        axis = self.choices.number(-x.rank, x.rank - 1)
        self.add(self.op("Softmax", [x], axis=axis)[0], x.shape, "float32", None)

    def nonzero(self) -> None:
        """Places that only the run knows; a match_cast may name how many, and they may be read."""
        x = self.pick(lambda v: v.rank > 0 and v.exact)
        found, count = self.op("NonZero", [x])[0], self.unknown()
        if self.choices.chance():
            name = f"k{len(self.found)}"
            self.found.append(name)
            cast = Var(f"{found.name}.cast", Tensor((x.rank, symbol(name)), "int64"))
            self.body.append(Binding((cast,), MatchCast(found), frozenset()))
            found = cast
        places = self.add(found, (x.rank, count), "int64", 50.0)
        if x.rank == 1:
            flat = self.op("Reshape", [places, self.constant([-1])])[0]
            made = self.op("Gather", [x, flat], axis=0)[0]
            self.add(made, (count,), x.dtype, x.size)

    def counted(self) -> None:
        """As many as there are positive elements: a slice, or a range."""
        x = self.pick(lambda v: v.rank > 0 and v.exact and v.dtype == "float32")
        zero = self.constant(0.0, "float32")
        flags = self.op("Cast", [self.op("Greater", [x, zero])[0]], to="int64")[0]
        count = self.op("ReduceSum", [flags], keepdims=0)[0]
        if self.choices.chance():
            made = self.op("Range", [self.constant(0), count, self.constant(1)])[0]
            self.add(made, (self.unknown(),), "int64", 1000.0)
            return
        ends = self.op("Reshape", [count, self.constant([1])])[0]
        axis = self.choices.number(0, x.rank - 1)
        made = self.op("Slice", [x, self.constant([0]), ends, self.constant([axis])])[0]
        self.add(made, (*x.shape[:axis], self.unknown(), *x.shape[axis + 1 :]), x.dtype, x.size)

    def unsqueeze(self) -> None:
        x = self.pick()
        ones = [a for a, d in enumerate(x.shape) if d == 1]
        if ones and self.choices.chance():
            axis = self.choices.one(ones)
            made = self.op("Squeeze", [x, self.constant([axis])])[0]
            self.add(made, (*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, x.size)
            return
        axis = self.choices.number(0, x.rank)
        made = self.op("Unsqueeze", [x, self.constant([axis])])[0]
        self.add(made, (*x.shape[:axis], 1, *x.shape[axis:]), x.dtype, x.size)

    def expand(self) -> None:
        x = self.pick()
        y = self.pick()
        shape = _together(x.shape, y.shape)
        if shape is not None:
            like = self.op("Shape", [y])[0]
            self.add(self.op("Expand", [x, like])[0], shape, x.dtype, x.size)

    def cast(self) -> None:
        x = self.pick(lambda v: v.exact)
        to = self.choices.one(["float32", "int64", "bool"])
        size = 1.0 if to == "bool" else x.size
        self.add(self.op("Cast", [x], to=to)[0], x.shape, to, size)

    def tile(self) -> None:
        x = self.pick(lambda v: v.rank > 0)
        axis = self.choices.number(0, x.rank - 1)
        times = [2 if a == axis else 1 for a in range(x.rank)]
        made = self.op("Tile", [x, self.constant(times)])[0]
        self.add(made, [d * t for d, t in zip(x.shape, times)], x.dtype, x.size)

    def branch(self) -> None:
        """One of two functions of a value; where their shapes differ only the run knows which."""
        x = self.pick(lambda v: v.exact and v.rank > 0 and v.dtype == "float32")
        total = self.op("ReduceSum", [x], keepdims=0)[0]
        flag = self.op("Greater", [total, self.constant(0.0, "float32")])[0]
        made = [self.side(x) for _ in range(2)]
        out = self.bind(Branch(flag, made[0][0], made[1][0], (x.var,)))[0]
        both = zip(made[0][1], made[1][1], strict=True)
        shape = [a if a == b and not _is_own(a) else self.unknown() for a, b in both]
        self.add(out, shape, "float32", (x.size or 0) * 2)

    def side(self, x: Value) -> tuple[str, tuple[Dim, ...]]:
        """A function of one value, and the shape of what it gives."""
        body = self.inner()
        given = Var(f"{body.name}.x", Tensor())
        kind = self.choices.one(["Relu", "Add", "Slice", "Transpose", "Same"])
        shape: tuple[Dim, ...] = x.shape
        if kind == "Same":
            return self.close(body, (given,), (given,)), shape
        if kind == "Slice":
            cut = [self.constant([1]), self.constant([END])]
            shape = (symbol("?own"), *shape[1:])
            return self.close(body, (given,), body.op("Slice", [given, *cut])), shape
        if kind == "Transpose":
            perm = tuple(range(x.rank))[::-1]
            return self.close(body, (given,), body.op("Transpose", [given], perm=perm)), shape[::-1]
        args = [given] * (2 if kind == "Add" else 1)
        return self.close(body, (given,), body.op(kind, args)), shape

    def loop(self) -> None:
        """A state that keeps its shape or grows in each iteration; what it was may be stacked."""
        x = self.pick(lambda v: v.rank > 0 and v.dtype == "float32" and v.size is not None)
        grows = self.choices.chance()
        times = self.choices.number(0, 3)
        scans = int(not grows and times > 0 and self.choices.chance())
        body = self.inner()
        step, going, state, more = (
            Var(f"{body.name}.{n}", Tensor()) for n in ("step", "going", "state", "more")
        )
        after = body.op("Concat", [state, more], axis=0) if grows else body.op("Add", [state, more])
        rows = body.op("Relu", [state]) if scans else []
        name = self.close(body, (step, going, state, more), [going, *after, *rows])
        trip = self.constant(times)
        made = self.bind(Loop(name, trip, None, (x.var,), (x.var,), scans), 1 + scans)
        shape = (self.unknown() if grows else x.shape[0], *x.shape[1:])
        self.add(made[0], shape, "float32", (x.size or 0) * 4)
        if scans:
            self.add(made[1], (self.unknown(), *x.shape), "float32", (x.size or 0) * 4)

    def call(self) -> None:
        """A function with a signature of its own: what it calls p and q, its caller does not."""
        x = self.pick(lambda v: 0 < v.rank <= len(OWN) and v.dtype == "float32")
        name, shape = self.closed(x.rank, self.choices.number(0, 1))
        swap = dict(zip(OWN, x.shape, strict=False))
        made = self.bind(FunctionCall(name, (x.var,)))[0]
        self.add(made, [self.unknown() if d == 0 else swap[d] for d in shape], "float32", None)

    def closed(self, rank: int, depth: int) -> tuple[str, list[Any]]:
        """A function of a tensor of that rank, and the dims of its result by its own symbols; 0
        stands for what its caller cannot know.
        """
        body = self.inner()
        shape: list[Any] = list(OWN[:rank])
        given = Var(f"{body.name}.x", Tensor(tuple(map(symbol, OWN[:rank])), "float32"))
        last = given
        for _ in range(self.choices.number(1, 2)):
            kind = self.choices.one(["Relu", "Transpose", "Slice", "Function"])
            if kind == "Function" and depth:
                name, inside = self.closed(rank, depth - 1)
                last = self.bind(FunctionCall(name, (last,)), into=body.body)[0]
                known = dict(zip(OWN, shape, strict=False))
                shape = [0 if d == 0 else known[d] for d in inside]
            elif kind == "Transpose":
                last = body.op(kind, [last], perm=tuple(range(rank))[::-1])[0]
                shape = shape[::-1]
            elif kind == "Slice":
                last = body.op(kind, [last, self.constant([1]), self.constant([END])])[0]
                shape = [0, *shape[1:]]
            else:
                last = body.op("Relu", [last])[0]
        return self.close(body, (given,), (last,)), shape

    def inner(self) -> Inner:
        """The body of a function to come."""
        self.begun += 1
        return Inner(f"f{self.begun}", self)

    def close(self, body: Inner, params: Sequence[Var], outputs: Sequence[Var]) -> str:
        made = Function(body.name, tuple(params), tuple(body.body), tuple(outputs))
        self.functions.append(made)
        return body.name

    def shape(self) -> None:
        x = self.pick(lambda v: v.rank > 0)
        self.add(self.op("Shape", [x])[0], (x.rank,), "int64", 1000.0)


KINDS = [
    *("unary", "binary", "binary", "where", "matmul", "reduce", "reshape", "transpose", "concat"),
    *("slice", "gather", "softmax", "nonzero", "counted", "unsqueeze", "expand", "cast", "tile"),
    *("shape", "branch", "loop", "call"),
]


def _is_foreign(dim: Dim) -> bool:
    """Whether a dim is no sum or product of what inputs may have."""
    return not isinstance(dim, int) and dim not in (n, m)


def _is_own(dim: Dim) -> bool:
    """Whether a dim is known to one side of a branch only."""
    return dim == symbol("?own")


def _together(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """What two shapes broadcast to, where they do whatever the symbols are."""
    rank = max(len(a), len(b))
    found: list[Dim] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y):
            return None
        found.append(y if x == 1 else x)
    return tuple(found)


@generator
def programs(c: Choices, most: int = 10) -> Program:
    """A program of a few steps; what nothing reads is its outputs."""
    writer = Writer(c)
    for _ in range(c.number(1, 2)):
        writer.param(tuple(c.some(EXTENTS, 0, 3)))
    for _ in range(c.one(range(most, 0, -1))):
        try:
            getattr(writer, c.one(KINDS))()
        except Refused:  # before anything is bound
            writer.unary()
    read = {v.name for b in writer.body for v in b.reads}
    made = [v for b in writer.body for v in b.vars]
    outputs = tuple(v for v in made if v.name not in read)[-3:] or (writer.values[-1].var,)
    names = tuple(v.name for v in outputs)
    params = tuple(p.var for p in writer.params)
    main = Function("main", params, tuple(writer.body), outputs, names)
    low = c.number(0, 1)
    bounds = [SymbolBound("n", low, 64, 7), SymbolBound("m", low, None, 3)]
    bounds += [SymbolBound(name, 0) for name in (*writer.found, *OWN)]
    return Program(
        (main, *writer.functions),
        writer.constants,
        ShapeEnv(tuple(bounds)),
        tuple(writer.sources),
        name="random",
    )


def inputs_of(program: Program, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """Small whole numbers, some of them zero; of extents within their bounds."""
    random = np.random.default_rng(seed)
    sizes = {name: max(size, program.env.of(name).low) for name, size in sizes.items()}
    given = {}
    for param in program.main.params:
        assert isinstance(param.type, Tensor)
        shape = [d if isinstance(d, int) else sizes[d.name] for d in param.type.dims]
        given[param.name] = random.integers(-3, 4, shape).astype(param.type.element)
    return given
