"""Constant folding."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, MatchCast, OpCall
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.symbols import symbols_of_expr
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.registry import compiler_pass
from explorer.process.budget import budget
from explorer.transforms.rewrite import record_match
from explorer.transforms.simplify.redundancy import record_dropped

GROWTH_BYTES = 1 << 20  # largest growth of a result over its arguments; chosen
GROWTH_TIMES = 2  # or this multiple for no more elements: 16-bit values may be widened to 32
FOLDED_BYTES = 64 << 20  # all folded constants, beyond twice the model's own; chosen
LONG_BYTES = 16 << 20  # largest result that takes longer to compute than to load; chosen
LONG = frozenset(  # operators whose results take longer to compute than to load
    {
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Exp", "Log", "Pow"),
        *("Sqrt", "Erf", "Sigmoid", "Softmax", "MatMul", "Gemm", "CumSum"),
    }
)
FOLDED_PARTS = 4  # at most a quarter of the memory budget; chosen


@compiler_pass(
    "fold-constants", paper="Kildall 1973, A unified approach to global program optimization"
)
def fold_constants(program: Program) -> Program:
    """Evaluate bindings of constants at compile time.

    After: a binding whose arguments are all constants is a constant, unless its result is much
    larger than the arguments, or all folded constants are much larger than the model. Elementary
    functions and products of constants alone are folded up to 16 MiB, whatever the size of their
    arguments.
    """
    constants = dict(program.constants)
    room = _Budget(folding_budget(program.constants))
    functions = tuple(_fold_function(f, constants, program, room) for f in program.functions)
    if len(constants) == len(program.constants):
        return program
    after = replace(program, functions=functions, constants=constants)
    return record_dropped(program, after, "computed when the model was compiled")


def folding_budget(constants: Mapping[str, Constant]) -> int:
    """Return the byte budget of all constants that are folded from these."""
    total = sum(c.nbytes for c in constants.values())
    return min(2 * total + FOLDED_BYTES, budget() // FOLDED_PARTS)


@dataclass
class _Budget:
    """The bytes that may still be folded."""

    left: int


def _fold_function(
    function: Function, constants: dict[str, Constant], program: Program, room: _Budget
) -> Function:
    body: list[Binding] = []
    large: dict[str, Binding] = {}  # values of constants only that are too large to fold
    outputs = {v.name for v in function.outputs}
    for binding in function.body:
        wanted = any(v.name in outputs for v in binding.vars)
        if wanted or not _can_fold(binding, constants, room):
            if not wanted and _is_of_constants(binding, constants, large):
                large[binding.vars[0].name] = binding
            body.append(binding)
            continue
        for var, constant in zip(binding.vars, _folded(binding, constants, program), strict=False):
            constants[var.name] = constant
            room.left -= constant.held_bytes
        record_match(fold_constants, (binding,), ())
    body = _fold_long(body, large, constants, program, room)
    return function if len(body) == len(function.body) else replace(function, body=tuple(body))


def _folded(
    binding: Binding, constants: Mapping[str, Constant], program: Program
) -> Sequence[Constant]:
    """Return the results of a binding of constants; a transpose is computed where it is read."""
    if _is_transpose(binding.expr):
        (source,) = binding.reads
        return [_transposed(constants[source.name], binding)]
    return [Constant(array) for array in _evaluate((binding,), constants, program)]


def _transposed(source: Constant, binding: Binding) -> Constant:
    order: Any = dict(binding.op_call.attrs).get("perm")
    return source.derived(
        ("transpose", order), binding.var.tensor, lambda array: np.transpose(array, order)
    )


def _fold_long(
    body: list[Binding],
    large: Mapping[str, Binding],
    constants: dict[str, Constant],
    program: Program,
    room: _Budget,
) -> list[Binding]:
    """Fold large results that would take long to compute in each run, and drop their bindings."""
    read = dict.fromkeys(v.name for b in body if b.vars[0].name not in large for v in b.reads)
    for name in (n for n in read if n in large):
        chain, size = _producer_chain(name, large), _static_bytes(large[name].var.type)
        if size > min(LONG_BYTES, room.left) or not any(map(_takes_long, chain)):
            continue
        (array,) = _evaluate(chain, constants, program)
        constants[name] = Constant(array)
        room.left -= array.nbytes
        record_match(fold_constants, chain, ())
    return _drop_unread(body, large, constants)


def _producer_chain(name: str, large: Mapping[str, Binding]) -> tuple[Binding, ...]:
    """Return the bindings that compute a value, in program order."""
    needed: set[str] = set()
    todo = [name]
    while todo:
        this = todo.pop()
        if this in large and this not in needed:
            needed.add(this)
            todo += [v.name for v in large[this].reads]
    return tuple(binding for n, binding in large.items() if n in needed)


def _drop_unread(
    body: list[Binding], large: Mapping[str, Binding], constants: Mapping[str, Constant]
) -> list[Binding]:
    """Drop large bindings that became constants or that nothing reads."""
    remaining: list[Binding] = []
    read: set[str] = set()
    for binding in reversed(body):
        name = binding.vars[0].name
        if name in large and (name in constants or name not in read):
            continue
        read.update(v.name for v in binding.reads)
        remaining.append(binding)
    return remaining[::-1]


def _takes_long(binding: Binding) -> bool:
    return isinstance(binding.expr, OpCall) and binding.expr.op in LONG


def _is_of_constants(
    binding: Binding, constants: Mapping[str, Constant], large: Mapping[str, Binding]
) -> bool:
    """Return True if a binding computes one value of static size from constants alone."""
    read = all(v.name in constants or v.name in large for v in binding.reads)
    return (
        read
        and len(binding.vars) == 1
        and _is_pure(binding.expr)
        and _static_bytes(binding.vars[0].type) >= 0
    )


def _can_fold(binding: Binding, constants: dict[str, Constant], room: _Budget) -> bool:
    if not all(v.name in constants for v in binding.reads) or not _is_pure(binding.expr):
        return False
    read = {v.name: constants[v.name] for v in binding.reads}.values()
    room_left = sys.maxsize if _is_transpose(binding.expr) else room.left
    return all(
        0 <= _static_bytes(v.type) <= min(_size_limit(v.tensor, read), room_left)
        for v in binding.vars
    )


def _is_transpose(expr: Expr) -> bool:
    """Return True for an operator whose results are computed where they are read."""
    return isinstance(expr, OpCall) and expr.op == "Transpose"


def _size_limit(result: Tensor, read: Collection[Constant]) -> int:
    """Return the largest result that may be folded, in bytes.

    The limit is the arguments' size plus `GROWTH_BYTES`, or twice their size if the result has no
    more elements.
    """
    size, elements = sum(c.nbytes for c in read), sum(c.size for c in read)
    wider = min(GROWTH_TIMES * size, elements * ITEM_BYTES[result.element])
    return max(size + GROWTH_BYTES, wider)


def _is_pure(expr: Expr) -> bool:
    match expr:
        case Branch() | Loop() | FunctionCall() | Gradient() | MatchCast():
            return False
    return not symbols_of_expr(expr)  # symbols have no value yet, even if every extent has one


def _static_bytes(type_: object) -> int:
    """Return the size of a tensor of static shape, -1 for other values."""
    if not isinstance(type_, Tensor) or not type_.is_known:
        return -1
    dims = [d for d in type_.dims if isinstance(d, int)]
    return prod(dims) * ITEM_BYTES[type_.element] if len(dims) == len(type_.dims) else -1


def _evaluate(
    bindings: tuple[Binding, ...], constants: Mapping[str, Constant], program: Program
) -> tuple[np.ndarray, ...]:
    """Evaluate a chain of bindings and return the results of the last."""
    results = bindings[-1].vars
    names = tuple(v.name for v in results)
    alone = Function("constant", (), bindings, results, names)
    read = {v.name: constants[v.name] for b in bindings for v in b.reads if v.name in constants}
    results_by_name = evaluate(Program((alone,), read, env=program.env, stage=program.stage), {})
    return tuple(results_by_name[n] for n in names)
