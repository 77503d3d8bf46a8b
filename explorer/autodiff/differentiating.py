"""What rules and control flow ask of a function that is being differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, Protocol

from explorer.ir.calls import Expr, Loop, Var
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.shapes.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.types import Tensor
from explorer.passes.pipeline.names import fresh
from explorer.passes.simplify.substitution import with_reads

Legalise = Callable[[Program], Program]


class Surroundings:
    """What the functions of one program share while they are differentiated: new functions,
    constants and names are added.

    `legalise` gives graph operators as kernels, views and loops.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        constants: Mapping[str, Constant],
        env: ShapeEnv,
        legalise: Legalise,
    ) -> None:
        self.functions, self.constants = dict(functions), dict(constants)
        self.env, self.legalise = env, legalise
        self.backs: dict[tuple[str, tuple[int, ...], tuple[int, ...]], str] = {}  # of calls
        self.taken: set[str] = {*self.constants}
        for f in functions.values():
            self.taken.update(v.name for v in f.params)
            self.taken.update(v.name for b in f.body for v in b.vars)

    def name(self, wish: str) -> str:
        """A name that no value has."""
        found = fresh(wish, self.taken)
        self.taken.add(found)
        return found

    def lowered(self, binding: Binding) -> tuple[Binding, ...]:
        """What an operator is made of; its loops' bodies and its constants are the program's."""
        params = tuple(v for v in dict.fromkeys(binding.reads) if v.name not in self.constants)
        alone = Function(binding.name, params, (binding,), binding.vars)
        known = {v.name: self.constants[v.name] for v in binding.reads if v.name in self.constants}
        found = self.legalise(Program((alone,), known, self.env))
        self.constants.update(found.constants)
        self.taken.update(found.constants)
        named = {}
        for body in found.functions[1:]:
            named[body.name] = self.add(body.name, body.params, body.body, body.outputs)
            self.taken.update(v.name for v in body.params)
            self.taken.update(v.name for b in body.body for v in b.vars)
        self.taken.update(v.name for b in found.main.body for v in b.vars)
        return tuple(
            replace(b, expr=replace(b.expr, body=named[b.expr.body]))
            if isinstance(b.expr, Loop)
            else b
            for b in found.main.body
        )

    @property
    def program(self) -> Program:
        """All functions and constants so far."""
        return Program(tuple(self.functions.values()), self.constants, self.env)

    def symbol(self, wish: str) -> Dim:
        """A new extent that only a run knows, 0 or more."""
        name = fresh(wish, {s.name for s in self.env.symbols})
        self.env = ShapeEnv((*self.env.symbols, SymbolBound(name, 0)))
        return symbol(name)

    def constant(self, wish: str, value: Constant) -> Var:
        """A new constant."""
        name = self.name(wish)
        self.constants[name] = value
        return Var(name, value.type)

    def copy(self, function: Function) -> Function:
        """The same function over values of other names: what is decided of a value is kept by its
        name, in whichever function it is.
        """
        values = {p.name: replace(p, name=self.name(p.name)) for p in function.params}
        body: list[Binding] = []
        for b in function.body:
            vars = tuple(replace(v, name=self.name(v.name)) for v in b.vars)
            body.append(Binding(vars, with_reads(b.expr, values), b.origin))
            values |= {v.name: new for v, new in zip(b.vars, vars, strict=True)}
        params = tuple(values[p.name] for p in function.params)
        outputs = tuple(values.get(v.name, v) for v in function.outputs)
        return replace(function, params=params, body=tuple(body), outputs=outputs)

    def add(
        self, wish: str, params: Sequence[Var], body: Sequence[Binding], outputs: Sequence[Var]
    ) -> str:
        """A new function; its name."""
        name = fresh(wish, self.functions)
        self.functions[name] = Function(name, tuple(params), tuple(body), tuple(outputs))
        return name


class Differentiating(Protocol):
    """One function being differentiated: what is done `forward`, then `backward`. `active` are the
    values that depend on what it is differentiated by.
    """

    around: Surroundings
    function: Function
    active: set[str]
    forward: list[Binding]
    backward: list[Binding]

    def inner(self, function: Function, wrt: Iterable[str]) -> Differentiating:
        """Another function, to be differentiated by some of its parameters."""
        ...

    def run(self, seeds: Sequence[tuple[Var, Var]]) -> Mapping[str, Var]:
        """Differentiate; `seeds` are results with their adjoints. By each parameter's name its
        gradient; one that nothing depends on has none.
        """
        ...

    def given(self, var: Var) -> bool:
        """Whether a value has an adjoint."""
        ...

    def whole(self, var: Var) -> Var:
        """The adjoint of a value that has one."""
        ...

    def give(self, var: Var, adjoint: Var) -> None:
        """Add to a value's adjoint."""
        ...

    def bind(self, hint: str, types: Sequence[Tensor], expr: Expr) -> tuple[Var, ...]:
        """Values of the backward pass, from the source operators that are being differentiated."""
        ...

    def map(
        self,
        hint: str,
        over: tuple[Axis, ...],
        expr: Scalar,
        given: Mapping[str, Var],
        dtype: str = "",
    ) -> Var:
        """A kernel over whole tensors, element by element; `given` by the names in `expr`."""
        ...

    def zeros(self, like: Tensor) -> Var:
        """A tensor of zeros."""
        ...

    def refuse(self, why: str) -> NoReturn:
        """UnsupportedOperator, of the operator that is being differentiated."""
        ...


def is_active_type(var: Var) -> bool:
    """Whether a value is a tensor of floats."""
    kind = var.type
    return isinstance(kind, Tensor) and kind.dtype is not None and is_float(kind.dtype)
