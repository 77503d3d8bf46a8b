"""State and interface that derivative rules share while a program is differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, Protocol

from explorer.ir.calls import Expr, Loop, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.transforms.simplify.substitution import with_reads

Legalise = Callable[[Program], Program]


class AutodiffContext:
    """Functions, constants and names of one program while it is differentiated.

    New functions, constants and names are added to it. `legalise` lowers graph operators to
    kernels, views and loops.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        constants: Mapping[str, Constant],
        env: ShapeEnv,
        legalise: Legalise,
    ) -> None:
        """Copy the program's functions and constants, and collect the names in use."""
        self.functions, self.constants = dict(functions), dict(constants)
        self.env, self.legalise = env, legalise
        self.backs: dict[tuple[str, tuple[int, ...], tuple[int, ...]], str] = {}  # of calls
        self.taken: set[str] = {*self.constants}
        for f in functions.values():
            self.taken.update(v.name for v in f.params)
            self.taken.update(v.name for b in f.body for v in b.vars)

    def name(self, wish: str) -> str:
        """Reserve and return a name that no value has."""
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name

    def lower(self, binding: Binding) -> tuple[Binding, ...]:
        """Lower one operator to its kernels, views and loops.

        Loop bodies and constants of the lowered code are added to the program.
        """
        params = tuple(v for v in dict.fromkeys(binding.reads) if v.name not in self.constants)
        alone = Function(binding.name, params, (binding,), binding.vars)
        constants = {
            v.name: self.constants[v.name] for v in binding.reads if v.name in self.constants
        }
        lowered = self.legalise(Program((alone,), constants, self.env))
        self.constants.update(lowered.constants)
        self.taken.update(lowered.constants)
        named = {}
        for body in lowered.functions[1:]:
            named[body.name] = self.add(body.name, body.params, body.body, body.outputs)
            self.taken.update(v.name for v in body.params)
            self.taken.update(v.name for b in body.body for v in b.vars)
        self.taken.update(v.name for b in lowered.main.body for v in b.vars)
        return tuple(
            replace(b, expr=replace(b.expr, body=named[b.expr.body]))
            if isinstance(b.expr, Loop)
            else b
            for b in lowered.main.body
        )

    @property
    def program(self) -> Program:
        """The program of all functions and constants so far."""
        return Program(tuple(self.functions.values()), self.constants, self.env)

    def symbol(self, wish: str) -> Dim:
        """Add a symbol for an extent that only a run knows, 0 or more."""
        name = fresh(wish, {s.name for s in self.env.symbols})
        self.env = ShapeEnv((*self.env.symbols, SymbolBound(name, 0)))
        return symbol(name)

    def constant(self, wish: str, value: Constant) -> Var:
        """Add a constant and return its variable."""
        name = self.name(wish)
        self.constants[name] = value
        return Var(name, value.type)

    def copy(self, function: Function) -> Function:
        """Return the same function over values with fresh names.

        Decisions about a value are stored by its name, so two copies must not share names.
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
        """Add a function and return its name."""
        name = fresh(wish, self.functions)
        self.functions[name] = Function(name, tuple(params), tuple(body), tuple(outputs))
        return name


class Differentiating(Protocol):
    """One function being differentiated: the `forward` bindings, then the `backward` ones.

    `active` are the values that depend on the differentiated parameters.
    """

    context: AutodiffContext
    function: Function
    active: set[str]
    forward: list[Binding]
    backward: list[Binding]

    def inner(self, function: Function, wrt: Iterable[str]) -> Differentiating:
        """Start to differentiate another function with respect to some of its parameters."""
        ...

    def run(self, seeds: Sequence[tuple[Var, Var]]) -> Mapping[str, Var]:
        """Differentiate; `seeds` are results with their adjoints.

        Return the gradient by each parameter's name. A parameter that no result depends on has
        none.
        """
        ...

    def has_adjoint(self, var: Var) -> bool:
        """Return True if a value has an adjoint."""
        ...

    def adjoint_of(self, var: Var) -> Var:
        """Return the sum of a value's adjoint contributions."""
        ...

    def add_adjoint(self, var: Var, adjoint: Var) -> None:
        """Add a contribution to a value's adjoint."""
        ...

    def bind(self, hint: str, types: Sequence[Tensor], expr: Expr) -> tuple[Var, ...]:
        """Bind values of the backward pass, with the origin of the differentiated operator."""
        ...

    def map(
        self,
        hint: str,
        over: tuple[Axis, ...],
        expr: Scalar,
        inputs: Mapping[str, Var],
        dtype: str = "",
    ) -> Var:
        """Bind an elementwise kernel over whole tensors; `expr` reads `inputs` by name."""
        ...

    def zeros(self, like: Tensor) -> Var:
        """Bind a tensor of zeros."""
        ...

    def refuse(self, why: str) -> NoReturn:
        """Raise UnsupportedOperator for the operator that is being differentiated."""
        ...


def is_active_type(var: Var) -> bool:
    """Return True if a value is a tensor of floats."""
    kind = var.type
    return isinstance(kind, Tensor) and kind.dtype is not None and is_float(kind.dtype)
