"""A program: flat functions of bindings over named values, and the constants they share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from explorer.allowance import cores
from explorer.cached_property import cached_property
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    OpCall,
    Var,
    reads_of,
)
from explorer.ir.decisions.decided import Decisions
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor, dtype_of
from explorer.plain_text import counted
from explorer.printed import Printed

PART_BYTES = 16 << 20  # of a large constant that one thread hashes at a time; chosen


def _parts(data: memoryview) -> Sequence[memoryview | bytes]:
    return [data[n : n + PART_BYTES] for n in range(0, len(data), PART_BYTES)]


def _digest(part: memoryview | bytes) -> bytes:
    return hashlib.blake2b(part, digest_size=16).digest()


class Constant:
    """A tensor whose value is known; equal where the bytes are equal. The array is read-only."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array).reshape(array.shape)
        self.array.flags.writeable = False
        self._layouts: WeakValueDictionary[Hashable, np.ndarray] = WeakValueDictionary()

    def laid_out(self, layout: Hashable, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The value in another layout, made once for as long as anybody holds it."""
        found = self._layouts.get(layout)
        if found is None:
            found = self._layouts[layout] = make(self.array)
        return found

    @cached_property
    def digest(self) -> str:
        """A hash of dtype, shape and bytes; of many bytes, of the hashes of their parts."""
        found = hashlib.blake2b(
            f"{dtype_of(self.array)}{self.array.shape};".encode(), digest_size=16
        )
        if self.array.dtype == object:
            for text in map(str, self.array.reshape(-1)):
                found.update(f"{len(text)}:{text}".encode())
        else:
            parts = _parts(self.array.reshape(-1).view(np.uint8).data)
            if len(parts) > 1:
                with ThreadPoolExecutor(cores()) as threads:
                    parts = list(threads.map(_digest, parts))
            for part in parts:
                found.update(part)
        return found.hexdigest()

    @property
    def type(self) -> Tensor:
        """The annotation of the value."""
        return Tensor(tuple(self.array.shape), dtype_of(self.array))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constant({self.type})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the value alone: layouts are made again."""
        return Constant, (self.array,)


@dataclass(frozen=True, slots=True)
class Binding:
    """`vars = expr`. `origin` names the source operators it comes from; passes must keep it."""

    vars: tuple[Var, ...]
    expr: Expr
    origin: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The first value's name, under which what is decided of the binding is kept."""
        return self.vars[0].name

    @property
    def var(self) -> Var:
        """The one value that is bound."""
        assert len(self.vars) == 1, "this binding has several values"
        return self.vars[0]

    @property
    def kernel_call(self) -> KernelCall:
        """The call of a kernel that this is; TypeError where it is none."""
        if isinstance(self.expr, KernelCall):
            return self.expr
        raise TypeError(f"{self.vars[0].name} calls no kernel: it is a {type(self.expr).__name__}")

    @property
    def library_call(self) -> LibraryCall:
        """The call of a library that this is; TypeError where it is none."""
        if isinstance(self.expr, LibraryCall):
            return self.expr
        raise TypeError(f"{self.vars[0].name} calls no library: {type(self.expr).__name__}")

    @property
    def op_call(self) -> OpCall:
        """The call of a graph operator that this is; TypeError where it is none."""
        if isinstance(self.expr, OpCall):
            return self.expr
        raise TypeError(f"{self.vars[0].name} is no operator, but a {type(self.expr).__name__}")

    @property
    def calls(self) -> tuple[str, ...]:
        """The functions of the program that it runs."""
        match self.expr:
            case Branch(_, then, orelse, _):
                return (then, orelse)
            case Loop(body):
                return (body,)
            case FunctionCall(name, _) | Gradient(name):
                return (name,)
        return ()

    @property
    def reads(self) -> tuple[Var, ...]:
        """Every value that is read."""
        return reads_of(self.expr)


@dataclass(frozen=True, slots=True)
class Function:
    """Parameters, bindings in order, outputs. It sees its parameters, its bindings, and the
    program's constants.
    """

    name: str
    params: tuple[Var, ...]
    body: tuple[Binding, ...]
    outputs: tuple[Var, ...]
    output_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOp:
    """An operator of the source: an ONNX node or a Python line."""

    name: str
    op: str
    detail: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Program(Printed):
    """The one value that passes take and give. `functions[0]` is the one that runs.

    `dropped` says of each source operator that is in no kernel why: ((name, reason), ...).
    """

    functions: tuple[Function, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict)
    env: ShapeEnv = ShapeEnv()
    sources: tuple[SourceOp, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    stage: Stage = Stage.IMPORTED
    decisions: Decisions = Decisions()
    name: str = "model"

    def __str__(self) -> str:
        printer = import_module("explorer.ir.text.printer")  # which imports this file
        return str(printer.print_program(self))

    @property
    def first_line(self) -> str:
        """The name, the stage, and how long the program is."""
        bindings = counted(sum(len(f.body) for f in self.functions), "binding")
        return f"{self.name} at {self.stage.name}: {bindings}"

    @property
    def main(self) -> Function:
        """The function that runs."""
        return self.functions[0]

    def function(self, name: str) -> Function:
        """The function of that name."""
        return next(f for f in self.functions if f.name == name)

    def with_body(self, body: tuple[Binding, ...]) -> Program:
        """The same with another main body."""
        return self.with_function(replace(self.main, body=body))

    def with_function(self, function: Function) -> Program:
        """The same with the function of that name replaced."""
        new = tuple(function if f.name == function.name else f for f in self.functions)
        return replace(self, functions=new)

    def bindings(self) -> Iterator[tuple[Function, Binding]]:
        """Every binding of every function."""
        for f in self.functions:
            for b in f.body:
                yield f, b

    @property
    def kernel_calls(self) -> tuple[Binding, ...]:
        """Every binding that calls a kernel."""
        return tuple(b for _, b in self.bindings() if isinstance(b.expr, KernelCall))

    @property
    def library_calls(self) -> tuple[Binding, ...]:
        """Every binding in which a library does an operator's work; arithmetic on shapes is not
        counted.
        """
        return tuple(
            b
            for _, b in self.bindings()
            if isinstance(b.expr, LibraryCall) and b.expr.library != "shape"
        )
