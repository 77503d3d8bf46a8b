"""Calls of operators that are wrong in some place: `python -m tests.ops.bad_calls [SECONDS]`.

A call that the onnx package's own tests make is changed in one to three places: an argument left
out, added, of another rank, extent or dtype, or known; an attribute left out, added, or of another
value or kind. Whatever becomes of it, it is told in an error of ours.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from traceback import extract_tb
from typing import Any

import numpy as np
import onnx

from explorer.errors import InternalFault, IronworksError
from explorer.frontends.load import load
from explorer.ir.calls import OpCall, Var
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.relax import deduce, legalize
from tests.conformance.onnx_nodes import cases

BIG = 1 << 62
DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "bool", "string"),
    *("int8", "uint8", "int32", "int64", "uint64"),
)
NUMBERS = (0, 1, -1, 2, 3, -2, 5, -5, 7, BIG, -BIG, (1 << 63) - 1, -(1 << 63), 1 << 31)
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf"), float("-inf"))
WORDS = (
    *("", "linear", "cubic", "nearest", "reflect", "edge", "wrap", "avg", "max", "add", "mul"),
    *("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "DCR", "CRD", "LEFT", "RIGHT", "tanh"),
    *("forward", "reverse", "bidirectional", "float32", "int64", "nonsense", "\x1b[31m"),
    *("ij,jk->ik", "ij->", "...i->i", "->", "i,i", "ii->i", ",,", "i->ij", "é->é"),
)
ENV = ShapeEnv((SymbolBound("n", 0, None, 16), SymbolBound("m", 1, 64, 16)))
N, M = symbol("n"), symbol("m")
EXTENTS = (0, 1, 2, 3, 4, 5, 7, 11, N, M, N + 1, 2 * N)

Arg = None | Tensor | np.ndarray


@dataclass(frozen=True)
class Call:
    """One operator: arguments that are annotated, or known, or left out."""

    op: str
    args: tuple[Arg, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    results: int = 1

    def program(self) -> Program:
        """A program of this call alone."""
        args: list[Var | None] = []
        constants: dict[str, Constant] = {}
        for i, a in enumerate(self.args):
            if isinstance(a, np.ndarray):
                constants[f"x{i}"] = Constant(a)
            kind = Constant(a).type if isinstance(a, np.ndarray) else a
            args.append(None if kind is None else Var(f"x{i}", kind))
        params = tuple(a for a in args if a is not None and a.name not in constants)
        made = tuple(Var(f"y{i}", Tensor()) for i in range(self.results))
        body = (Binding(made, OpCall(self.op, tuple(args), self.attrs), frozenset({"node"})),)
        main = Function("main", params, body, made, tuple(v.name for v in made))
        return Program((main,), constants, ENV)


@cache
def seeds() -> dict[str, tuple[Call, ...]]:
    """By operator the calls that the onnx package's tests make, and one of a matrix."""
    found = {op: [Call(op, (Tensor((2, 3), "float32"),))] for op in RECORDS}
    with TemporaryDirectory() as folder:
        for case in cases():
            path = Path(folder) / "case.onnx"
            onnx.save(case.model, path)
            given = case.data_sets[0][0] if case.data_sets else ()
            known = {i.name: v for i, v in zip(case.model.graph.input, given)}
            try:
                program = load(path).program
            except IronworksError:
                continue
            for binding in program.main.body:
                call = binding.expr
                if isinstance(call, OpCall) and call.op in RECORDS:
                    found[call.op] += _seed(program, call, len(binding.vars), known)
    return {op: tuple(calls) for op, calls in found.items()}


def _seed(program: Program, call: OpCall, results: int, known: Mapping[str, Any]) -> list[Call]:
    args: list[Arg] = []
    for i, a in enumerate(call.args):
        value = None if a is None else known.get(a.name)
        if a is None:
            args.append(None)
        elif a.name in program.constants:
            args.append(program.constants[a.name].array)
        elif i in RECORDS[call.op].by_value and isinstance(value, np.ndarray):
            args.append(value)
        elif isinstance(a.type, Tensor) and a.type.shape is not None:
            args.append(a.type)
        else:
            return []
    return [Call(call.op, tuple(args), call.attrs, results)]


def changed(call: Call, r: random.Random) -> Call:
    """The call with one to three things changed."""
    for _ in range(r.choice((1, 1, 1, 2, 2, 3, 5))):
        call = r.choice(CHANGES)(call, r)
    return call


def _argument(call: Call, r: random.Random) -> Call:
    if not call.args:
        return replace(call, args=(_tensor(r),))
    i = r.randrange(len(call.args))
    args = list(call.args)
    args[i] = _other(args[i], r)
    return replace(call, args=tuple(args))


def _tensor(r: random.Random) -> Tensor:
    dims = tuple(r.choice(EXTENTS) for _ in range(r.randrange(6)))
    return Tensor(dims, r.choice(DTYPES))


def _known(r: random.Random, dtype: str = "") -> np.ndarray:
    dtype = dtype or r.choice(("int64",) * 3 + ("int32", "float32", "bool", "uint8", "float64"))
    shape = r.choice(((), (0,), (1,), (2,), (3,), (4,), (1, 1), (2, 2), (8,)))
    count = int(np.prod(shape))
    values: Any
    if dtype.startswith("float"):
        values = [r.choice(FLOATS) for _ in range(count)]
    elif dtype == "int64":
        values = [r.choice(NUMBERS) for _ in range(count)]
    else:
        values = [r.choice((0, 1, 2, 3)) for _ in range(count)]
    return np.array(values, dtype).reshape(shape)


def _other(arg: Arg, r: random.Random) -> Arg:
    kind = r.randrange(8)
    if kind == 0:
        return None
    if kind == 1:
        return _known(r)
    if kind == 2:
        return _tensor(r)
    if arg is None:
        return r.choice((_tensor(r), _known(r)))
    if isinstance(arg, np.ndarray):
        if kind == 3:
            return Constant(arg).type
        return _known(r, str(arg.dtype) if arg.dtype.kind in "iufb" else "")
    dims = list(arg.dims)
    if kind == 3:
        return replace(arg, dtype=r.choice(DTYPES))
    if kind == 4 and dims:
        dims[r.randrange(len(dims))] = r.choice(EXTENTS)
    elif kind == 5 and dims:
        del dims[r.randrange(len(dims))]
    elif kind == 6:
        dims.insert(r.randrange(len(dims) + 1), r.choice(EXTENTS))
    else:
        dims = [r.choice(EXTENTS) for _ in range(r.randrange(6))]
    return replace(arg, shape=tuple(dims))


def _more_arguments(call: Call, r: random.Random) -> Call:
    more = (r.choice((None, _tensor(r), _known(r))) for _ in range(r.choice((1, 1, 2, 9))))
    return replace(call, args=(*call.args, *more))


def _fewer_arguments(call: Call, r: random.Random) -> Call:
    return replace(call, args=call.args[: r.randrange(len(call.args) + 1)])


def _results(call: Call, r: random.Random) -> Call:
    return replace(call, results=r.choice((1, 2, 3, 4)))


def names_of(op: str) -> tuple[str, ...]:
    """Attributes that an operator may have."""
    schema = onnx.defs.get_schema(op, "") if onnx.defs.has(op, "") else None
    known = () if schema is None else tuple(schema.attributes)
    return (*known, *RECORDS[op].by_value.values())


def value(r: random.Random) -> Any:
    """Any value of an attribute."""
    kinds: tuple[Sequence[Any], ...] = (NUMBERS, FLOATS, WORDS, (True, False), (N, M, N - 1))
    kind = r.randrange(12)
    if kind < 4:
        return r.choice(r.choice(kinds))
    if kind == 4:
        return ((1, 2), (3,))
    if kind < 8:
        return tuple(r.choice((1, 2, 3, 0, -1)) for _ in range(r.randrange(6)))
    among = kinds[r.choice((0, 0, 0, 1, 2, 4))]
    return tuple(r.choice(among) for _ in range(r.randrange(6)))


def _like(old: Any, r: random.Random) -> Any:
    """Another value of the same kind."""
    if isinstance(old, tuple) and old:
        many = [_like(v, r) if r.random() < 0.5 else v for v in old]
        if r.random() < 0.4:
            many = many[: r.randrange(len(many) + 1)] + many[: r.randrange(2)]
        return tuple(many)
    if isinstance(old, bool | int):
        return r.choice(NUMBERS)
    if isinstance(old, float):
        return r.choice(FLOATS)
    return r.choice(WORDS) if isinstance(old, str) else value(r)


def _attribute(call: Call, r: random.Random) -> Call:
    attrs, kind = dict(call.attrs), r.randrange(4)
    name = r.choice(names_of(call.op) or ("axis",))
    if attrs and kind < 3:
        name = r.choice(list(attrs))
    if name in attrs and kind == 0:
        del attrs[name]
    elif name in attrs and kind == 1:
        attrs[name] = _like(attrs[name], r)
    else:
        attrs[name] = value(r)
    return replace(call, attrs=tuple(attrs.items()))


CHANGES = (*[_argument] * 3, _more_arguments, _fewer_arguments, _results, *[_attribute] * 4)


def bad_calls(op: str, r: random.Random) -> Iterator[Call]:
    """Changed calls of an operator, without end."""
    while True:
        yield changed(r.choice(seeds()[op]), r)


def attempt(call: Call) -> str:
    """The sentence that refuses a call; empty where it is taken. All else that is raised is a fault
    of ours.
    """
    try:
        legalize(deduce(call.program()))
    except InternalFault:
        raise
    except IronworksError as error:
        return error.sentence
    return ""


def main(seconds: float, ops: list[str]) -> int:
    """Print each place where a fault lies with the shortest call that leads there."""
    found: dict[str, Call] = {}
    counts: Counter[str] = Counter()
    seeds()  # made once, before the clock runs
    r, end = random.Random(), monotonic() + seconds
    while monotonic() < end:
        call = next(bad_calls(r.choice(ops or list(RECORDS)), r))
        try:
            counts["refused" if attempt(call) else "taken"] += 1
        except Exception as problem:
            last = extract_tb(problem.__traceback__)[-1]
            place = f"{type(problem).__name__}: {problem} at {last.filename}:{last.lineno}"
            counts["fault"] += 1
            if place not in found or len(str(call)) < len(str(found[place])):
                found[place] = call
    print(dict(counts), *(f"{place}\n    {call}" for place, call in found.items()), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30, sys.argv[2:]))
