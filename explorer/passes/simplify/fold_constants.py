"""What depends on nothing but constants is computed when the model is compiled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from explorer.budget import budget
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, MatchCast, OpCall
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.symbols import symbols_of_expr
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.ops.reference.evaluate import evaluate
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched
from explorer.passes.simplify.dropped_origins import account

GROWTH_BYTES = 1 << 20  # of a result over what it is made of, at most; chosen
GROWTH_TIMES = 2  # or so many times that for no more elements: 16 bits are computed with in 32
FOLDED_BYTES = 64 << 20  # all of them together, over twice the model's own; chosen
LONG_BYTES = 16 << 20  # of a result that takes longer to compute than to load; chosen
LONG = frozenset(  # operators with such results
    {
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Exp", "Log", "Pow"),
        *("Sqrt", "Erf", "Sigmoid", "Softmax", "MatMul", "Gemm", "CumSum"),
    }
)
FOLDED_PARTS = 4  # and at most one part in so many of the budget; chosen


@compiler_pass(
    "fold-constants", paper="Kildall 1973, A unified approach to global program optimization"
)
def fold_constants(program: Program) -> Program:
    """After: a binding whose arguments are all constants is a constant, unless that would be much
    larger than they, or all such constants much larger than the model. Up to 16 MiB, elementary
    functions and products of constants alone are computed whatever they are made of.
    """
    constants = dict(program.constants)
    room = _Room(room_for(program.constants))
    functions = tuple(_folded(f, constants, program, room) for f in program.functions)
    if len(constants) == len(program.constants):
        return program
    after = replace(program, functions=functions, constants=constants)
    return account(program, after, "computed when the model was compiled")


def room_for(constants: Mapping[str, Constant]) -> int:
    """The bytes that what is computed of these constants may take, all of it together."""
    given = sum(c.array.nbytes for c in constants.values())
    return min(2 * given + FOLDED_BYTES, budget() // FOLDED_PARTS)


@dataclass
class _Room:
    """What may still be folded."""

    left: int


def _folded(
    function: Function, constants: dict[str, Constant], program: Program, room: _Room
) -> Function:
    body: list[Binding] = []
    large: dict[str, Binding] = {}  # what is made of constants alone, and is too large to be one
    outputs = {v.name for v in function.outputs}
    for binding in function.body:
        wanted = any(v.name in outputs for v in binding.vars)
        if wanted or not _can_fold(binding, constants, room):
            if not wanted and _is_of_constants(binding, constants, large):
                large[binding.vars[0].name] = binding
            body.append(binding)
            continue
        for var, array in zip(binding.vars, _values((binding,), constants, program), strict=False):
            constants[var.name] = Constant(array)
            room.left -= array.nbytes
        matched(fold_constants, (binding,), ())
    body = _without_long(body, large, constants, program, room)
    return function if len(body) == len(function.body) else replace(function, body=tuple(body))


def _without_long(
    body: list[Binding],
    large: Mapping[str, Binding],
    constants: dict[str, Constant],
    program: Program,
    room: _Room,
) -> list[Binding]:
    """The bindings without those that would take long in each run, which are constants now."""
    read = dict.fromkeys(v.name for b in body if b.vars[0].name not in large for v in b.reads)
    for name in (n for n in read if n in large):
        chain, size = _chain(name, large), _bytes(large[name].var.type)
        if size > min(LONG_BYTES, room.left) or not any(map(_takes_long, chain)):
            continue
        (array,) = _values(chain, constants, program)
        constants[name] = Constant(array)
        room.left -= array.nbytes
        matched(fold_constants, chain, ())
    return _read_only(body, large, constants)


def _chain(name: str, large: Mapping[str, Binding]) -> tuple[Binding, ...]:
    """The bindings that a value is made by, in their order."""
    needed: set[str] = set()
    todo = [name]
    while todo:
        this = todo.pop()
        if this in large and this not in needed:
            needed.add(this)
            todo += [v.name for v in large[this].reads]
    return tuple(binding for n, binding in large.items() if n in needed)


def _read_only(
    body: list[Binding], large: Mapping[str, Binding], constants: Mapping[str, Constant]
) -> list[Binding]:
    """The bindings without large ones that are constants, or that nothing reads any more."""
    kept: list[Binding] = []
    read: set[str] = set()
    for binding in reversed(body):
        name = binding.vars[0].name
        if name in large and (name in constants or name not in read):
            continue
        read.update(v.name for v in binding.reads)
        kept.append(binding)
    return kept[::-1]


def _takes_long(binding: Binding) -> bool:
    return isinstance(binding.expr, OpCall) and binding.expr.op in LONG


def _is_of_constants(
    binding: Binding, constants: Mapping[str, Constant], large: Mapping[str, Binding]
) -> bool:
    """Whether a binding makes one value of known size of constants alone."""
    read = all(v.name in constants or v.name in large for v in binding.reads)
    return (
        read
        and len(binding.vars) == 1
        and _is_pure(binding.expr)
        and _bytes(binding.vars[0].type) >= 0
    )


def _can_fold(binding: Binding, constants: dict[str, Constant], room: _Room) -> bool:
    if not all(v.name in constants for v in binding.reads) or not _is_pure(binding.expr):
        return False
    read = {v.name: constants[v.name].array for v in binding.reads}.values()
    return all(0 <= _bytes(v.type) <= min(_most(v.tensor, read), room.left) for v in binding.vars)


def _most(made: Tensor, read: Collection[np.ndarray]) -> int:
    """The bytes that a result may have: a little more than what it is made of; or, for no more
    elements than there are, twice as many.
    """
    given, elements = sum(a.nbytes for a in read), sum(a.size for a in read)
    wider = min(GROWTH_TIMES * given, elements * ITEM_BYTES[made.element])
    return max(given + GROWTH_BYTES, wider)


def _is_pure(expr: Expr) -> bool:
    match expr:
        case Branch() | Loop() | FunctionCall() | Gradient() | MatchCast():
            return False
    return not symbols_of_expr(expr)  # which have no value yet, though every extent may have one


def _bytes(type_: object) -> int:
    """The size of a tensor whose shape is static, -1 of any other value."""
    if not isinstance(type_, Tensor) or not type_.is_known:
        return -1
    dims = [d for d in type_.dims if isinstance(d, int)]
    return prod(dims) * ITEM_BYTES[type_.element] if len(dims) == len(type_.dims) else -1


def _values(
    bindings: tuple[Binding, ...], constants: Mapping[str, Constant], program: Program
) -> tuple[np.ndarray, ...]:
    """The results of the last of some bindings."""
    results = bindings[-1].vars
    names = tuple(v.name for v in results)
    alone = Function("constant", (), bindings, results, names)
    read = {v.name: constants[v.name] for b in bindings for v in b.reads if v.name in constants}
    found = evaluate(Program((alone,), read, env=program.env, stage=program.stage), {})
    return tuple(found[n] for n in names)
