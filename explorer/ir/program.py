"""Programs: flat functions of bindings over named values, and the constants they share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import count
from math import prod
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

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
from explorer.ir.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.ir.types import ITEM_BYTES, Tensor, dtype_of
from explorer.plain_text import counted
from explorer.printed import Printed
from explorer.process.allowance import cores
from explorer.process.mapped_memory import drop_pages

CHUNK_BYTES = 16 << 20  # of a large constant that one thread hashes at a time; chosen


def _chunks(data: memoryview) -> Sequence[memoryview | bytes]:
    return [data[n : n + CHUNK_BYTES] for n in range(0, len(data), CHUNK_BYTES)]


def _digest(part: memoryview | bytes) -> bytes:
    return hashlib.blake2b(part, digest_size=16).digest()


def _digests(parts: Sequence[memoryview | bytes]) -> list[bytes]:
    """Hash parts on several threads, or one after the other while the interpreter shuts down."""
    try:
        with ThreadPoolExecutor(cores()) as threads:
            return list(threads.map(_digest, parts))
    except RuntimeError:
        return [_digest(part) for part in parts]


class Constant:
    """A tensor whose value is known; equal where the bytes are equal. The array is read-only."""

    def __init__(self, array: np.ndarray) -> None:
        """Take the array over and make it contiguous and read-only."""
        self.array = np.ascontiguousarray(array).reshape(array.shape)
        self.array.flags.writeable = False
        self._begin_caches()

    def _begin_caches(self) -> None:
        self._layouts: WeakValueDictionary[Hashable, np.ndarray] = WeakValueDictionary()
        self._derived: WeakValueDictionary[Hashable, DerivedConstant] = WeakValueDictionary()

    def laid_out(self, layout: Hashable, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the value in another layout, cached while the result is referenced elsewhere."""
        array = self._layouts.get(layout)
        if array is None:
            array = self._layouts[layout] = make(self.array)
        return array

    def derived(
        self,
        how: Hashable,
        type: Tensor,
        make: Callable[..., np.ndarray],
        others: tuple[Constant, ...] = (),
    ) -> DerivedConstant:
        """Return the constant `make(self.array, *others' arrays)`, shared while it is referenced.

        So the plans of a model for several sizes have one. `how` names the function in this
        process.
        """
        key = (how, type, tuple(map(id, others)))
        constant = self._derived.get(key)
        if constant is None:
            constant = self._derived[key] = DerivedConstant((self, *others), type, make)
        return constant

    @cached_property
    def digest(self) -> str:
        """Return a hash of dtype, shape and bytes; large constants hash their chunks' digests."""
        array = self.array  # of a derived constant: it is computed once
        digest = hashlib.blake2b(f"{dtype_of(array)}{array.shape};".encode(), digest_size=16)
        if array.dtype == object:
            for text in map(str, array.reshape(-1)):
                digest.update(f"{len(text)}:{text}".encode())
        else:
            parts = _chunks(array.reshape(-1).view(np.uint8).data)
            for part in parts if len(parts) == 1 else _digests(parts):
                digest.update(part)
            drop_pages(array)
        return digest.hexdigest()

    @property
    def type(self) -> Tensor:
        """The annotation of the value."""
        return Tensor(tuple(self.array.shape), dtype_of(self.array))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(map(int, self.type.dims))

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.array.nbytes

    @property
    def held_bytes(self) -> int:
        """The bytes of the elements if they stay in memory as long as the constant."""
        return self.nbytes

    def __eq__(self, other: object) -> bool:
        """Return True if both have the same dtype, shape and bytes."""
        return isinstance(other, Constant) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        """Return a hash of the digest."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Return the annotation in place of the elements."""
        return f"Constant({self.type})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the value alone: layouts are computed again."""
        return Constant, (self.array,)


class DerivedConstant(Constant):
    """A constant that is computed from others when it is read, and dropped once nothing reads it.

    So a weight that kernels read in a packed layout is in memory in that layout alone.
    """

    def __init__(
        self, sources: tuple[Constant, ...], type: Tensor, make: Callable[..., np.ndarray]
    ) -> None:
        """State what `make` returns for the arrays of the sources."""
        self._sources, self._type, self._make = sources, type, make
        self._array: Callable[[], np.ndarray | None] = _no_array
        self._begin_caches()

    @property
    def array(self) -> np.ndarray:  # type: ignore[override]
        """The value; the same array as long as somewhere refers to it."""
        array = self._array()
        if array is None:
            sources = [s.array for s in self._sources]
            value = self._make(*sources)
            array = np.ascontiguousarray(value).reshape(np.shape(value))  # it makes scalars vectors
            assert (array.shape, dtype_of(array)) == (self._type.shape, self._type.dtype)
            array.flags.writeable = False
            self._array = ref(array)
            for source in sources:
                drop_pages(source)
        return array

    @property
    def type(self) -> Tensor:
        """The annotation of the value."""
        return self._type

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * ITEM_BYTES[self._type.element]

    @property
    def held_bytes(self) -> int:
        """No bytes: they are computed again."""
        return 0


def _no_array() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Binding:
    """`vars = expr`. `origin` names the source operators it comes from; passes must preserve it."""

    vars: tuple[Var, ...]
    expr: Expr
    origin: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the first value, the key of the decisions about the binding."""
        return self.vars[0].name

    @property
    def var(self) -> Var:
        """The value that is bound, if there is exactly one."""
        assert len(self.vars) == 1, "this binding has several values"
        return self.vars[0]

    @property
    def kernel_call(self) -> KernelCall:
        """The expression as a kernel call; TypeError if it is none."""
        if isinstance(self.expr, KernelCall):
            return self.expr
        raise TypeError(
            f"{self.vars[0].name} is not a kernel call: it is a {type(self.expr).__name__}"
        )

    @property
    def library_call(self) -> LibraryCall:
        """The expression as a library call; TypeError if it is none."""
        if isinstance(self.expr, LibraryCall):
            return self.expr
        raise TypeError(
            f"{self.vars[0].name} is not a library call: it is a {type(self.expr).__name__}"
        )

    @property
    def op_call(self) -> OpCall:
        """The expression as a graph operator; TypeError if it is none."""
        if isinstance(self.expr, OpCall):
            return self.expr
        raise TypeError(
            f"{self.vars[0].name} is not an operator: it is a {type(self.expr).__name__}"
        )

    @property
    def calls(self) -> tuple[str, ...]:
        """The functions of the program that it calls."""
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
    """Parameters, bindings in order, and outputs.

    In scope are its parameters, its bindings, and the program's constants.
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
    """The value that passes map to a new one. `functions[0]` is the entry function.

    `dropped` gives for each source operator that is in no kernel the reason: ((name, reason), ...).
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
        """Return the program's text, as `explorer.parse` reads it."""
        printer = import_module("explorer.ir.text.printer")  # an import at the top would be cyclic
        return str(printer.print_program(self))

    @property
    def first_line(self) -> str:
        """The name, the stage, and the number of bindings."""
        bindings = counted(sum(len(f.body) for f in self.functions), "binding")
        return f"{self.name} at {self.stage.name}: {bindings}"

    @property
    def main(self) -> Function:
        """The entry function."""
        return self.functions[0]

    def function(self, name: str) -> Function:
        """Return the function of that name."""
        return next(f for f in self.functions if f.name == name)

    def with_body(self, body: tuple[Binding, ...]) -> Program:
        """Return the program with another body of the entry function."""
        return self.with_function(replace(self.main, body=body))

    def with_function(self, function: Function) -> Program:
        """Return the program with the function of that name replaced."""
        new = tuple(function if f.name == function.name else f for f in self.functions)
        return replace(self, functions=new)

    def bindings(self) -> Iterator[tuple[Function, Binding]]:
        """Yield every binding of every function."""
        for f in self.functions:
            for b in f.body:
                yield f, b

    @property
    def kernel_calls(self) -> tuple[Binding, ...]:
        """Every binding that calls a kernel."""
        return tuple(b for _, b in self.bindings() if isinstance(b.expr, KernelCall))

    @property
    def library_calls(self) -> tuple[Binding, ...]:
        """Every binding that calls a library for an operator, without arithmetic on shapes."""
        return tuple(
            b
            for _, b in self.bindings()
            if isinstance(b.expr, LibraryCall) and b.expr.library != "shape"
        )


def fresh(wish: str, taken: Container[str]) -> str:
    """Return the wished name, or the first of `wish2`, `wish3`, ... that is not taken."""
    if wish not in taken:
        return wish
    return next(name for n in count(2) if (name := f"{wish}{n}") not in taken)
