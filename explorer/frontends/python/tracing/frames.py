"""The program and its functions under construction, and the function and line being traced."""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.lib import mixins

from explorer.errors import TraceError
from explorer.ir.calls import Expr, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Constant, Function, SourceOp
from explorer.ir.types import Annotation


class FunctionFrame:
    """A function under construction.

    `outer` is the enclosing function of a loop's or branch's body. Values that it captures from
    there become parameters.
    """

    def __init__(self, recorder: Recorder, name: str, outer: FunctionFrame | None = None) -> None:
        """Create an empty function."""
        self.recorder, self.name, self.outer = recorder, name, outer
        self.body: list[Binding] = []
        self.captured: dict[str, Var] = {}  # the outer value's name -> our parameter
        self.read: dict[str, Var] = {}  # the outer value's name -> the outer value
        self.symbols: dict[str, Dim] = {}  # by the user's names
        self.defined: set[str] = set()  # symbols defined by match_casts of this function
        # Arrays of enclosing functions whose elements were changed here, and the line.
        self.changed: list[tuple[Any, str]] = []
        self.closed = False

    def bind(self, names: Sequence[str], types: Sequence[Annotation], expr: Expr) -> list[Var]:
        """Append a binding; its origin is the source operator being traced."""
        vars_ = [self.recorder.value(n, t) for n, t in zip(names, types, strict=True)]
        self.body.append(Binding(tuple(vars_), expr, frozenset((current_source(),))))
        return vars_

    def own(self, var: Var, home: FunctionFrame) -> Var:
        """Return a value as seen by this function: its own, a constant, or a captured one."""
        if home is self or (home.recorder is self.recorder and var.name in self.recorder.constants):
            return var
        if home.recorder is not self.recorder or home.closed or self.outer is None:
            _refuse(var, home, self)
        if var.name not in self.captured:
            self.read[var.name] = self.outer.own(var, home)
            self.captured[var.name] = self.recorder.value(f"{self.name}.{var.name}", var.type)
        return self.captured[var.name]

    def encloses(self, frame: FunctionFrame) -> bool:
        """Return True if `frame` is this function, or nested in it."""
        inner: FunctionFrame | None = frame
        while inner is not None and inner is not self:
            inner = inner.outer
        return inner is self

    def find_symbol(self, name: str) -> Dim | None:
        """Return the symbol that a match_cast gave this name, here or in an enclosing function."""
        frame: FunctionFrame | None = self
        while frame is not None:
            if name in frame.symbols:
                return frame.symbols[name]
            frame = frame.outer
        return None


def _refuse(var: Var, home: FunctionFrame, frame: FunctionFrame) -> NoReturn:
    line = calling_line()
    if home.recorder is frame.recorder and not home.closed:
        what, instead = f"{frame.name!r} sees only its own parameters", "pass it as an argument"
    else:
        what, instead = f"{home.name!r} is traced already", "return it as a result"
    raise TraceError(
        f"{line}: {var.name!r} is a value of another function, and {what}; {instead}",
        where=line,
        try_=instead,
    )


_frame: ContextVar[FunctionFrame | None] = ContextVar("frame", default=None)
_source: ContextVar[str | None] = ContextVar("source", default=None)
_part: ContextVar[str] = ContextVar("part", default="")


def current_frame() -> FunctionFrame:
    """Return the function being traced; raise TraceError outside of a trace."""
    frame = _frame.get()
    if frame is None:
        raise TraceError(
            f"{calling_line()}: a traced value is used after its function was traced; "
            "return it as a result",
            where=calling_line(),
        )
    return frame


def is_tracing() -> bool:
    """Return True while a function is being traced."""
    return _frame.get() is not None


@contextmanager
def tracing_into(frame: FunctionFrame) -> Iterator[FunctionFrame]:
    """Record operators in this function, with its own sources, inside the context."""
    before, source = _frame.set(frame), _source.set(None)
    try:
        yield frame
    finally:
        _source.reset(source)
        _frame.reset(before)


def current_source() -> str:
    """Return the source operator being traced."""
    name = _source.get()
    assert name is not None, "an operator is recorded outside of any source line"
    return name


@contextmanager
def attributed_to(source: str) -> Iterator[None]:
    """Attribute operators recorded inside the context to this source operator."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


@contextmanager
def attributed_to_call(op: str) -> Iterator[None]:
    """Attribute operators recorded inside the context to this line's call of `op`."""
    if _source.get() is not None:
        yield
        return
    with attributed_to(current_frame().recorder.source(op)):
        yield


@contextmanager
def named_part(name: str) -> Iterator[None]:
    """Name source operators after a part of the model, such as `layer 0/query`, not after a line.

    A part inside of another one is a path.
    """
    outer = _part.get()
    token = _part.set(f"{outer}/{name}" if outer else name)
    try:
        yield
    finally:
        _part.reset(token)


# The program.


HINT = 16  # of a symbol known only at run time


def is_immutable(array: np.ndarray) -> bool:
    """Return True if nothing can write the elements: they lie in bytes, or are mapped to read."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return isinstance(base, (bytes, mmap))


def _fresh(name: str, taken: dict[str, int]) -> str:
    candidate = name
    while candidate in taken:
        taken[name] += 1
        candidate = f"{name}.{taken[name]}"
    taken[candidate] = 1
    return candidate


class Recorder:
    """State shared by all functions of one traced program; value names are unique."""

    def __init__(self, env: ShapeEnv, limits: Mapping[str, int]) -> None:
        """Create an empty program."""
        self.env = env
        self.limits = limits  # upper bounds of symbols from earlier attempts at this trace
        self.functions: list[Function] = []
        self.constants: dict[str, Constant] = {}
        self.sources: list[SourceOp] = []
        self.called: dict[int, object] = {}  # the signatures of isolated functions, by identity
        # NumPy arrays with traced elements assigned to them, and their traced replacements, by id.
        self.replaced: dict[int, tuple[np.ndarray, Any]] = {}
        self._names: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._places: dict[str, Var] = {}

    def fresh(self, name: str) -> str:
        """Return an unused name for a value or a function, with a number appended if necessary."""
        return _fresh(name, self._names)

    def value(self, name: str, type: Annotation) -> Var:
        """Return a new value."""
        return Var(self.fresh(name), type)

    def source(self, op: str) -> str:
        """Add a source operator: the current part or line, and the operation that it calls."""
        part, line = _part.get(), calling_line()
        name = _fresh(f"{part}/{op}" if part else f"{line} {op}", self._lines)
        self.sources.append(SourceOp(name, op, part or line.text))
        return name

    def constant(self, constant: Constant, name: str = "array") -> Var:
        """Return a constant as a value; equal constants are shared, under their first name."""
        if constant.digest not in self._places:
            name = self.fresh(name if constant.shape else "number")
            self.constants[name] = constant
            self._places[constant.digest] = Var(name, constant.type)
        return self._places[constant.digest]

    def symbol(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """Return a new symbol with a name like `name`."""
        word = first = re.sub(r"\W", "_", name, flags=re.ASCII)
        taken, count = {s.name for s in self.env.symbols}, 1
        while word in taken:
            count += 1
            word = f"{first}_{count}"
        high = self.limits.get(word, high)
        hint = min(max(low, HINT), HINT if high is None else max(high, low))
        self.env = ShapeEnv((*self.env.symbols, SymbolBound(word, low, high, hint)))
        return symbol(word)

    def mark(self) -> tuple[ShapeEnv, int, int, dict[int, object]]:
        """Return a checkpoint of the program for `rewind`."""
        return self.env, len(self.functions), len(self.sources), dict(self.called)

    def rewind(self, mark: tuple[ShapeEnv, int, int, dict[int, object]]) -> None:
        """Remove the functions and sources added since `mark`; used names stay reserved."""
        self.env, functions, sources, self.called = mark
        del self.functions[functions:], self.sources[sources:]
        self._lines = {s.name: 1 for s in self.sources}


# Lines of the user's Python.


OURS = str(Path(__file__).parents[3])  # the folder of the package `explorer`
WRITTEN = ("decoding", "flow", "gated", "loops")  # the zoo's models with control flow
BETWEEN = (OURS, contextlib.__file__, functools.__file__, mixins.__file__)
AS_USERS = (  # treated as user code: models of the zoo, losses and optimizers
    *(str(Path(OURS, "frontends", "zoo", f"{name}.py")) for name in WRITTEN),
    str(Path(OURS, "training")),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of Python: the file's name without its folder, the number, and the text."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        """Return `file:number`."""
        return f"{self.file}:{self.number}"


def calling_line() -> Line:
    """Return the innermost user line on the stack.

    Lines of this package and of the standard library's wrappers are skipped, except for the zoo's
    models and the optimizers.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_between(frame.f_code.co_filename):
        frame = frame.f_back
    path, number = frame.f_code.co_filename, frame.f_lineno
    return Line(_label(path), number, linecache.getline(path, number).strip())


def _is_between(path: str) -> bool:
    return path.startswith(BETWEEN) and not path.startswith(AS_USERS)


def _label(path: str) -> str:
    """Return the file's name; "cell" for a notebook cell, which has a temporary file name."""
    if "ipykernel_" in path or path.startswith("<ipython"):
        return "cell"
    return Path(path).name
