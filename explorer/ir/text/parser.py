"""Parser of a program's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from explorer.errors import SnapshotError
from explorer.ir.affine import Affine, var
from explorer.ir.calls import (
    AttrValue,
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import ShapeEnv, SymbolBound
from explorer.ir.kernel import Axis, Compute, Kernel, TensorSpec
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ir.text.text_lines import Line
from explorer.ir.text.text_parser import (
    parse_affine,
    parse_axes,
    parse_dim,
    parse_expr,
    parse_shape,
    parse_tiling,
    parse_type,
    parse_value,
)
from explorer.ir.types import Tensor

Attrs = list[tuple[str, AttrValue]]


NO_CONSTANTS: Mapping[str, Constant] = MappingProxyType({})


def parse_program(text: str, constants: Mapping[str, Constant] = NO_CONSTANTS) -> Program:
    """Parse the text of a program: what `str(program)` returned, edited, or written by hand.

    Decisions other than tiles are not part of the text.

    Args:
        text: the text.
        constants: the constants that it names, such as `program.constants`.

    Raises:
        SnapshotError: a line cannot be parsed, or a constant is missing or has other bytes.
    """
    lines = [Line(t, n) for n, t in enumerate(text.splitlines(), 1) if t.strip()]
    return _Parser(lines, constants).program()


class _Parser:
    """A recursive-descent parser over lines, with the values that are defined so far."""

    def __init__(self, lines: list[Line], constants: Mapping[str, Constant]) -> None:
        self.lines, self.position, self.constants_by_name = lines, 0, constants
        self.constants = {n: c for n, c in self.read_constants()}
        self.vars: dict[str, Var] = {}

    def read_constants(self) -> list[tuple[str, Constant]]:
        """Read the table of constants, which stands after the functions that use it."""
        constants: list[tuple[str, Constant]] = []
        for line in self.lines:
            if line.next != "constant" or line.text.startswith(" "):
                continue
            line.take()
            line.expect("@")
            name = line.name()
            line.expect(":")
            type = parse_type(line)
            line.expect("=")
            digest = line.string()
            constant = self.constants_by_name.get(name)
            if constant is None or constant.type != type or constant.digest != digest:
                raise SnapshotError(
                    f"the constant {name!r} is missing, or has another type or other bytes",
                    where=name,
                )
            constants.append((name, constant))
        return constants

    def program(self) -> Program:
        head = self.take()
        head.expect("program")
        name = head.name()
        head.expect("at")
        stage = head.name()
        if stage not in Stage.__members__:
            head.fail("a stage")
        symbols, functions, sources, dropped = [], [], [], []
        while self.position < len(self.lines):
            line = self.take()
            match line.take() if line.at == 0 else "constant":
                case "symbol":
                    symbols.append(_symbol(line))
                case "def":
                    functions.append(self.function(line))
                case "source":
                    source, op = line.name(), line.name()
                    detail = line.string() if line.kind == "string" else ""
                    sources.append(SourceOp(source, op, detail))
                case "dropped":
                    dropped.append((line.name(), line.string()))
                case "constant":
                    pass
                case _:
                    line.at = 0
                    line.fail("def, symbol, constant, source or dropped")
        return Program(
            tuple(functions),
            self.constants,
            ShapeEnv(tuple(symbols)),
            tuple(sources),
            tuple(dropped),
            Stage[stage],
            name=name,
        )

    def take(self) -> Line:
        if self.position >= len(self.lines):
            raise SnapshotError("the program's text ends too early")
        self.position += 1
        return self.lines[self.position - 1]

    def function(self, line: Line) -> Function:
        name = line.name()
        line.expect("(")
        params = tuple(self.typed(line, ")"))
        self.vars = {p.name: p for p in params}
        line.expect(":")
        body: list[Binding] = []
        while True:
            line = self.take()
            if line.next in ("return", "output") and line.after() != ":":
                break
            body.append(self.binding(line))
        named = line.take() == "output"
        outputs: list[Var] = []
        names: list[str] = []
        while line.kind != "end":
            if outputs:
                line.expect(",")
            outputs.append(self.value(line))
            if line.accept(":"):
                outputs[-1] = replace(outputs[-1], type=parse_type(line))
            names.append(line.name() if line.accept("as") else outputs[-1].name)
        return Function(name, params, tuple(body), tuple(outputs), tuple(names) if named else ())

    def typed(self, line: Line, close: str) -> list[Var]:
        """Parse `name: type`, separated by commas, up to a mark."""
        variables: list[Var] = []
        while not line.accept(close):
            if variables:
                line.expect(",")
            name = line.name()
            line.expect(":")
            variables.append(Var(name, parse_type(line)))
        return variables

    def value(self, line: Line) -> Var:
        if line.accept("@"):
            name = line.name()
            if name not in self.constants:
                line.fail(f"a constant, which {name!r} is not")
            return Var(name, self.constants[name].type)
        name = line.name()
        if name not in self.vars:
            line.fail(f"a value that is bound, which {name!r} is not")
        return self.vars[name]

    def values(self, line: Line, close: str) -> tuple[Var, ...]:
        variables: list[Var] = []
        while not line.accept(close):
            if variables:
                line.expect(",")
            variables.append(self.value(line))
        return tuple(variables)

    def arguments(
        self, line: Line
    ) -> tuple[tuple[Var | None, ...], tuple[tuple[str, AttrValue], ...]]:
        """Parse values, `_` for omitted ones, and then `name=value`."""
        line.expect("(")
        args: list[Var | None] = []
        attrs: Attrs = []
        while not line.accept(")"):
            if args or attrs:
                line.expect(",")
            if line.kind in ("word", "string") and line.after() == "=":
                name = line.name()
                line.expect("=")
                attrs.append((name, parse_value(line)))
            elif line.next == "_" and line.kind == "word":
                line.take()
                args.append(None)
            else:
                args.append(self.value(line))
        return tuple(args), tuple(attrs)

    def binding(self, line: Line) -> Binding:
        results = self.typed(line, "=")  # its results are not in scope on the right
        reader = _EXPRESSIONS.get(line.next) if line.after() != "(" or line.next in _CALLS else None
        call: KernelCall | None = None
        if line.next == "kernel" and line.after() != "(":
            call, constants = self.kernel_call(line)
            expr: Expr = call
        elif reader is not None:
            line.take()
            expr = reader(self, line)
        else:
            op = line.name()
            args, attrs = self.arguments(line)
            expr = OpCall(op, args, attrs)
        origin = _origin(line)
        line.end()
        if call is not None:
            expr = self.kernel(call, constants, results, origin)
        self.vars.update((v.name, v) for v in results)
        return Binding(tuple(results), expr, origin)

    # Kernels.

    def kernel_call(self, line: Line) -> tuple[KernelCall, frozenset[str]]:
        line.expect("kernel")
        name = line.name()
        line.expect("(")
        inputs: list[str] = []
        args: list[Var] = []
        while not line.accept(")"):
            if args:
                line.expect(",")
            inputs.append(line.name())
            line.expect("=")
            args.append(self.value(line))
        constants = frozenset(
            n for n, a in zip(inputs, args, strict=True) if a.name in self.constants
        )
        if line.accept("knowing"):
            constants = frozenset(_names(line))
        outputs = _names(line) if line.accept("giving") else ()
        updates: list[tuple[str, str]] = []
        while line.accept("," if updates else "updating"):
            taken = line.name()
            updates.append((line.name() if line.accept("with") else "", taken))
        tiling = parse_tiling(line) if line.accept("tiled") else None
        efficient = parse_tiling(line) if line.accept("or") else None
        after = self.value(line) if line.accept("after") else None
        kernel = Kernel(name, (), (), tuple(inputs), outputs, constants, tuple(updates))
        return KernelCall(kernel, tuple(args), tiling, efficient, after), constants

    def kernel(
        self,
        call: KernelCall,
        constants: frozenset[str],
        results: Sequence[Var],
        origin: frozenset[str],
    ) -> KernelCall:
        """Parse the loop nests under a call."""
        specs = {n: _spec(n, a) for n, a in zip(call.kernel.inputs, call.args, strict=True)}
        order: list[str] | None = None
        computes: list[Compute] = []
        axes: tuple[Axis, ...] = ()
        while self.position < len(self.lines) and self.lines[self.position].text.startswith("    "):
            line = self.take()
            if line.text.startswith("      "):
                computes.append(_compute(line, axes, origin))
            elif line.accept("let"):
                name = line.name()
                line.expect(":")
                specs[name] = _spec(name, Var(name, parse_type(line)))
            elif line.accept("tensors"):
                order = [line.name()]
                while line.accept(","):
                    order.append(line.name())
            elif line.accept("once"):
                line.expect(":")
                axes = ()
            else:
                line.expect("for")
                axes = parse_axes(line, ":")
        result = results[0]
        if not computes:
            raise SnapshotError(
                f"the kernel of {result.name!r} computes nothing", where=result.name
            )
        outputs = call.kernel.outputs or (computes[-1].out,)
        if len(outputs) != len(results):
            raise SnapshotError(
                f"the kernel of {result.name!r} has {len(outputs)} outputs, not {len(results)}",
                where=result.name,
            )
        for output, value in zip(outputs, results, strict=True):
            specs.setdefault(output, _spec(output, value))
        names = order or [*call.kernel.inputs, *dict.fromkeys(c.out for c in computes)]
        missing = [n for n in names if n not in specs]
        if missing:
            raise SnapshotError(
                f"the kernel of {result.name!r} does not state the type of {missing[0]!r}"
            )
        kernel = replace(
            call.kernel,
            tensors=tuple(specs[n] for n in names),
            computes=tuple(computes),
            outputs=outputs,
            updates=tuple((o or outputs[0], i) for o, i in call.kernel.updates),
        )
        return replace(call, kernel=kernel)


def _names(line: Line) -> tuple[str, ...]:
    """Parse `(name, name)`."""
    line.expect("(")
    names: list[str] = []
    while not line.accept(")"):
        if names:
            line.expect(",")
        names.append(line.name())
    return tuple(names)


def _spec(name: str, value: Var) -> TensorSpec:
    if not isinstance(value.type, Tensor) or not value.type.is_known:
        raise SnapshotError(f"the kernel's tensor {name!r} has no known type", where=name)
    return TensorSpec(name, value.type.dims, value.type.element)


def _compute(line: Line, axes: tuple[Axis, ...], origin: frozenset[str]) -> Compute:
    stored = line.next == "store" and line.after() != "["
    if stored:
        line.take()
    out = line.name()
    line.expect("[")
    target: list[Affine] = []
    while not line.accept("]"):
        if target:
            line.expect(",")
        target.append(parse_affine(line))
    line.expect("=")
    combiner: str | None = None
    reduce: tuple[Axis, ...] = ()
    if line.next in COMBINERS and line.after() == "[" and line.after(3) == "<":
        combiner = line.take()
        line.expect("[")
        reduce = parse_axes(line, "]")
    expr = parse_expr(line)
    own = _origin(line)
    line.end()
    plain = tuple(target) == tuple(var(a.name) for a in axes) and not stored
    return Compute(out, axes, expr, reduce, combiner, () if plain else tuple(target), own or origin)


def _origin(line: Line) -> frozenset[str]:
    if not line.accept("#"):
        return frozenset()
    names = [line.name()]
    while line.accept(","):
        names.append(line.name())
    return frozenset(names)


def _symbol(line: Line) -> SymbolBound:
    name = line.name()
    line.expect(":")
    low = line.integer()
    line.expect("..")
    high = None if line.accept("any") else line.integer()
    line.expect("hint")
    return SymbolBound(name, low, high, line.integer())


# Right-hand sides of bindings besides operators and kernels.


def _view(p: _Parser, line: Line) -> Expr:
    arg = p.value(line)
    return View(arg, parse_dim(line) if line.accept("at") else 0)


def _library(p: _Parser, line: Line) -> Expr:
    library, function = line.name(), line.name()
    args, attrs = p.arguments(line)
    return LibraryCall(library, function, args, attrs)


def _call(p: _Parser, line: Line) -> Expr:
    name = line.name()
    line.expect("(")
    return FunctionCall(name, p.values(line, ")"))


def _match(p: _Parser, line: Line) -> Expr:
    return MatchCast(p.value(line))


def _shape_of(p: _Parser, line: Line) -> Expr:
    line.expect("(")
    return ShapeOf(parse_shape(line, ")"), 1)


def _dim_of(p: _Parser, line: Line) -> Expr:
    line.expect("(")
    return ShapeOf(parse_shape(line, ")"), 0)


def _if(p: _Parser, line: Line) -> Expr:
    cond = p.value(line)
    line.expect("then")
    then = line.name()
    line.expect("else")
    orelse = line.name()
    line.expect("of")
    line.expect("(")
    return Branch(cond, then, orelse, p.values(line, ")"))


def _loop(p: _Parser, line: Line) -> Expr:
    body = line.name()
    line.expect("(")
    state = p.values(line, ";")
    args = p.values(line, ")")
    trip = p.value(line) if line.accept("times") else None
    cond = p.value(line) if line.accept("while") else None
    scans = line.integer() if line.accept("stacking") else 0
    padded = bool(scans) and line.accept("padded")
    rows: list[Tensor] = []
    while line.accept("," if rows else "of"):
        kind = parse_type(line)
        if not isinstance(kind, Tensor):
            line.fail("the type of a tensor")
        rows.append(kind)
    return Loop(body, trip, cond, state, args, scans, tuple(rows), padded)


def _gradient(p: _Parser, line: Line) -> Expr:
    name = line.name()
    line.expect("(")
    args = p.values(line, ")")
    line.expect("by")
    line.expect("(")
    wrt: list[int] = []
    while not line.accept(")"):
        if wrt:
            line.expect(",")
        wrt.append(line.integer())
    seeds: tuple[Var, ...] = ()
    if line.accept("seeds"):
        line.expect("(")
        seeds = p.values(line, ")")
    if any(not 0 <= n < len(args) for n in wrt):
        line.fail(f"numbers of arguments below {len(args)}")
    return Gradient(name, args, tuple(wrt), seeds)


_CALLS = ("shape_of", "dim_of")
_EXPRESSIONS: Mapping[str, Callable[[_Parser, Line], Expr]] = {
    "view": _view,
    "library": _library,
    "call": _call,
    "gradient": _gradient,
    "match": _match,
    "shape_of": _shape_of,
    "dim_of": _dim_of,
    "if": _if,
    "loop": _loop,
}
