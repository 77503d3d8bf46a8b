"""Library dispatch (Relax, section 4.6): patterns that a library takes, tried in order.

    h = MatMul(x, w); y = Add(h, b)   ->   y = library blas.matmul_add(x, w, b)

A match that is taken becomes one library call; the reason of each refusal is recorded. Operators
without a match are lowered as usual, which is the paper's partial lowering. Patterns are those of
BLAS, of the onnx package, and registered ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from explorer.errors import BadOption, ShapeError
from explorer.ir.calls import LibraryCall, OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor, dtype_of
from explorer.ops import RECORDS
from explorer.ops.interpreter.libraries import WRONG_IN_ONNX
from explorer.ops.interpreter.library_functions import (
    Annotate,
    LibraryFunction,
    accepted,
    register_function,
)
from explorer.ops.interpreter.linear_algebra import BLAS_DTYPES
from explorer.ops.interpreter.verify import same
from explorer.passes.policy_call import PolicyCall
from explorer.passes.registry import compiler_pass
from explorer.process.user_code import Registry, a, shown
from explorer.relax.deduction.knowledge import is_known
from explorer.relax.deduction.library import library_call
from explorer.relax.graph_patterns import Match, Op, find, op
from explorer.transforms.rewrite import record_match

Check = Callable[[Match], str]  # why a match is refused, or ""
Registered = TypeVar("Registered", bound=Callable[..., object])
BUILT_IN = ("numpy", "onnx", "blas", "linalg", "shape")


@compiler_pass("dispatch", paper="Relax, ASPLOS 2025, section 4.6: partial library lowering")
@dataclass(frozen=True, slots=True)
class Dispatch:
    """Library calls for the operators that match a pattern.

    After: matched operators are library calls, all others are unchanged.
    """

    patterns: tuple[LibraryPattern, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with library calls, and every match among its decisions."""
        rows: list[Moved] = []
        constants = dict(program.constants)
        for function in program.functions:
            chosen, matches = choose(program, function, self.patterns)
            rows += matches
            program = program.with_function(_moved(function, chosen, constants))
        decisions = replace(program.decisions, dispatch=tuple(rows))
        return replace(program, constants=constants, decisions=decisions)


def _moved(
    function: Function, chosen: tuple[DispatchChoice, ...], constants: dict[str, Constant]
) -> Function:
    calls = {c.match.root.vars[0].name: c for c in chosen}
    replaced = {b.vars[0].name for c in chosen for b in c.match.inner}
    body: list[Binding] = []
    for binding in function.body:
        name = binding.vars[0].name if binding.vars else ""
        if name in replaced:
            continue
        if name in calls:
            library_binding = _call(calls[name], constants)
            pattern = calls[name].pattern
            title = f"{pattern.library}.{pattern.function or 'any operator'}"
            record_match(pattern.check, calls[name].match.bindings, (library_binding,), title)
            binding = library_binding
        body.append(binding)
    return replace(function, body=tuple(body))


def _call(choice: DispatchChoice, constants: dict[str, Constant]) -> Binding:
    """Return the library call that replaces the operators."""
    pattern, match = choice.pattern, choice.match
    name = match.root.vars[0].name

    def constant(array: np.ndarray, hint: str) -> Var:
        var = Var(f"{name}.{hint}", Tensor(tuple(array.shape), dtype_of(array)))
        constants[var.name] = Constant(array)
        return var

    expr = LibraryCall(pattern.library, pattern.function, match.args, match.attrs)
    if pattern.library == "onnx":
        onnx_expr = onnx_call(match, constant)
        assert onnx_expr is not None, "the policy takes what the onnx package takes"
        expr = onnx_expr
    origin = frozenset[str]().union(*(b.origin for b in match.bindings))
    return Binding(match.root.vars, expr, origin)


@dataclass(frozen=True, slots=True)
class Moved:
    """A match of a pattern: its operators, and the library they go to, or why not."""

    value: str
    operators: tuple[str, ...]
    library: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class DispatchChoice:
    """A match that is taken, with its pattern."""

    pattern: LibraryPattern
    match: Match


def choose(
    program: Program, function: Function, patterns: Sequence[LibraryPattern]
) -> tuple[tuple[DispatchChoice, ...], tuple[Moved, ...]]:
    """Return the matches to take, and all matches; no binding is in two of them.

    Intermediates of a match have no other reader. So a call in place of its last binding reads only
    earlier values, and no cycle can arise.
    """
    outputs = {v.name for v in function.outputs}
    uses = Counter(v.name for b in function.body for v in b.reads)
    makers = {b.var.name: b for b in function.body if len(b.vars) == 1}
    taken: set[str] = set()
    chosen: list[DispatchChoice] = []
    rows: list[Moved] = []
    for pattern in patterns:
        for binding in reversed(function.body):
            for match in _matches(pattern, binding, makers, program):
                names = [b.vars[0].name for b in match.bindings]
                if taken & set(names):
                    continue
                why = _refusal(match, pattern, uses, outputs, program)
                words = tuple(b.expr.op for b in match.bindings if isinstance(b.expr, OpCall))
                rows.append(Moved(names[0], words, _name(pattern, words), why))
                if not why:
                    taken.update(names)
                    chosen.append(DispatchChoice(pattern, match))
                    break
    return tuple(chosen), tuple(rows)


def _name(pattern: LibraryPattern, words: tuple[str, ...]) -> str:
    return pattern.name if pattern.function else f"{pattern.library}.{words[0]}"


def _matches(
    pattern: LibraryPattern, binding: Binding, makers: dict[str, Binding], program: Program
) -> list[Match]:
    if not isinstance(binding.expr, OpCall):
        return []
    if pattern.pattern is None:
        return [Match((binding,), binding.expr.args, binding.expr.attrs)]
    return list(find(pattern.pattern, binding, makers, program.constants))


def _refusal(
    match: Match,
    pattern: LibraryPattern,
    uses: Counter[str],
    outputs: set[str],
    program: Program,
) -> str:
    inside = Counter(v.name for b in match.bindings for v in b.reads)
    for binding in match.inner:
        for var in binding.vars:
            if var.name in outputs:
                return f"{var.name} is an output"
            if uses[var.name] > inside[var.name] or var in match.args:
                return f"{var.name} is read elsewhere too"
    if not all(is_known(v) for v in (*match.args, *match.root.vars)):
        return "not all shapes are known before the program runs"
    if (
        pattern.library == "onnx"
        and onnx_call(match, lambda array, hint: match.root.vars[0]) is None
    ):
        return "the onnx package takes no symbolic extents"
    wrong = WRONG_IN_ONNX.get(match.root.expr.op) if isinstance(match.root.expr, OpCall) else None
    if pattern.library == "onnx" and wrong:
        return f"the onnx package's own evaluator {wrong}"
    why = _checked(pattern, match)
    if not why:
        _check_annotation(match, pattern, program)
    return why


def _checked(pattern: LibraryPattern, match: Match) -> str:
    """Return a pattern's refusal; raise BadPolicy if its check raises or returns no string."""
    policy_call = PolicyCall(
        "Relax", pattern.check, f"{match.root.vars[0].name!r} for {pattern.name}"
    )
    with policy_call.guarding():
        why: Any = pattern.check(match)
    if not isinstance(why, str):
        raise policy_call.refused(
            f"returned {a(why)}, not the reason to refuse a match",
            'a string, "" to accept',
            shown(why),
        )
    return why


def onnx_call(match: Match, constant: Callable[[np.ndarray, str], Var]) -> LibraryCall | None:
    """Return one operator as a call of the onnx package.

    Attributes that were arguments become arguments again, as constants.
    """
    call = match.root.op_call
    return library_call(call, RECORDS.get(call.op), constant)


def _check_annotation(match: Match, pattern: LibraryPattern, program: Program) -> None:
    """Raise ShapeError if a function's annotation contradicts the operators' results."""
    if pattern.annotation is None:
        return
    args = [None if a is None else a.type for a in match.args]
    try:
        annotated = pattern.annotation(*args, **accepted(pattern.annotation, match.attrs))
    except Exception as problem:  # a user's code may raise anything
        raise BadOption(
            f"the annotation of {pattern.name} failed: {type(problem).__name__}: {problem}",
            where=pattern.name,
            try_="it takes one tensor annotation for each value of its pattern",
        ) from problem
    types = annotated if isinstance(annotated, tuple) else (annotated,)
    for var, declared in zip(match.root.vars, types, strict=False):
        if not isinstance(declared, Tensor) or not same(var.type, declared, program.env):
            raise ShapeError(
                f"{pattern.name} is annotated to give {declared}, and {var.name!r} is {var.type}",
                where=pattern.name,
                expected=str(var.type),
                actual=str(declared),
                try_="correct the annotation, or narrow the pattern with check=",
            )


def always(match: Match) -> str:
    """Accept every match."""
    return ""


@dataclass(frozen=True, slots=True)
class LibraryPattern:
    """Operators that become one call of `library.function`; a pattern of None is any operator."""

    library: str
    function: str
    pattern: Op | None
    check: Check = always
    annotation: Annotate | None = None

    @property
    def name(self) -> str:
        """The name in options."""
        return f"{self.library}.{self.function}" if self.function else self.library


def _floats(match: Match) -> str:
    dtypes = {a.type.dtype for a in match.args if a is not None and isinstance(a.type, Tensor)}
    if len(dtypes) == 1 and dtypes <= set(BLAS_DTYPES):
        return ""
    return (
        f"a BLAS computes {' and '.join(BLAS_DTYPES)}, and this is {' and '.join(map(str, dtypes))}"
    )


def _bias(match: Match) -> str:
    """Return why a product and an addition do not merge: the addend must not be larger."""
    why = _floats(match)
    product = match.inner[0].var.type
    if why or match.root.var.type == product:
        return why
    return "what is added makes the product larger, so it stays a step of its own"


BLAS = (
    LibraryPattern("blas", "matmul_add", op("Add", op("MatMul", "a", "b"), "c"), _bias),
    LibraryPattern("blas", "matmul", op("MatMul", "a", "b"), _floats),
    LibraryPattern("blas", "gemm", Op("Gemm"), _floats),
)

_registered = Registry[LibraryPattern]()


def library(
    name: str,
    *,
    pattern: Op | str,
    annotation: Annotate | None = None,
    check: Check = always,
) -> Callable[[Registered], Registered]:
    """Register a function over NumPy arrays as `library.function`, for a pattern of operators.

    It returns its result (a tuple of several), or writes into the array `out` if it has a parameter
    of that name; it then needs an annotation: from those of the arguments, tensors, to that of the
    result. Attributes of the operators reach keyword-only parameters of their names. A pattern may
    be an operator's name. `Options(relax=Options(dispatch=(name,)))` makes calls use it.

    Raises BadOption if the name, the pattern or the function does not fit.
    """
    library_name, dot, function = name.rpartition(".")
    if not (dot and library_name and function) or library_name in BUILT_IN:
        raise BadOption(
            f"a library function is named library.function, and not {name!r}",
            where=name,
            expected="mylib.gelu, in a library of your own",
            actual=name,
        )
    matched_op = Op(pattern) if isinstance(pattern, str) else pattern

    def register(run: Registered) -> Registered:
        register_function(LibraryFunction(library_name, function, run, annotation))
        _registered[name] = LibraryPattern(library_name, function, matched_op, check, annotation)
        return run

    return register


def patterns(names: tuple[str, ...]) -> tuple[LibraryPattern, ...]:
    """Return the patterns of libraries or functions by name, in order.

    Raises BadOption for an unknown name.
    """
    out: list[LibraryPattern] = []
    for name in names:
        selected = _named(name)
        if not selected:
            available = ", ".join(("blas", "onnx", "onnx.Softmax", *_registered))
            raise BadOption(
                f"no library and no library function is named {name!r}",
                where="relax.dispatch",
                expected=available,
                actual=name,
                try_="register it with @explorer.library first",
            )
        out += [p for p in selected if p not in out]
    return tuple(out)


def _named(name: str) -> list[LibraryPattern]:
    library_name, _, function = name.partition(".")
    if library_name == "onnx":
        return [LibraryPattern("onnx", function, Op(function) if function else None)]
    registered = [*BLAS, *_registered.values()]
    return [p for p in registered if name in (p.name, p.library)]
