"""A program being written: functions in the making, constants, symbols, and source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

import numpy as np

from explorer.errors import BoundError, TraceError
from explorer.frontends.tracing.lines import calling_line
from explorer.ir.calls import Expr, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Constant, Function, SourceOp
from explorer.ir.types import Annotation
from explorer.ops.broadcast import ImpliedBound

HINT = 16  # of a symbol that only a run knows


def _fresh(name: str, taken: dict[str, int]) -> str:
    found = name
    while found in taken:
        taken[name] += 1
        found = f"{name}.{taken[name]}"
    taken[found] = 1
    return found


class Recorder:
    """What all functions of one program share; no two of its values have one name."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.functions: list[Function] = []
        self.constants: dict[str, Constant] = {}
        self.sources: list[SourceOp] = []
        self.called: dict[int, object] = {}  # the signatures of isolated functions, by identity
        self._names: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._places: dict[str, Var] = {}

    def fresh(self, name: str) -> str:
        """A name for a value or a function: the name, or the name and a number."""
        return _fresh(name, self._names)

    def value(self, name: str, type: Annotation) -> Var:
        """A new value."""
        return Var(self.fresh(name), type)

    def source(self, op: str) -> str:
        """A new source operator: the line that is being run, and what it calls."""
        line = calling_line()
        name = _fresh(f"{line} {op}", self._lines)
        self.sources.append(SourceOp(name, op, line.text))
        return name

    def constant(self, array: np.ndarray) -> Var:
        """The constant of that value; an equal one is taken again."""
        constant = Constant(array.copy())
        if constant.digest not in self._places:
            name = self.fresh("number" if array.ndim == 0 else "array")
            self.constants[name] = constant
            self._places[constant.digest] = Var(name, constant.type)
        return self._places[constant.digest]

    def symbol(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """A new symbol called like `name`."""
        word = first = re.sub(r"\W", "_", name, flags=re.ASCII)
        taken, count = {s.name for s in self.env.symbols}, 1
        while word in taken:
            count += 1
            word = f"{first}_{count}"
        hint = min(max(low, HINT), HINT if high is None else max(high, low))
        self.env = ShapeEnv((*self.env.symbols, SymbolBound(word, low, high, hint)))
        return symbol(word)

    def mark(self) -> tuple[ShapeEnv, int, int]:
        """What has been written so far."""
        return self.env, len(self.functions), len(self.sources)

    def rewind(self, mark: tuple[ShapeEnv, int, int]) -> None:
        """Forget the functions that were written since; names that were given stay given."""
        self.env, functions, sources = mark
        del self.functions[functions:], self.sources[sources:]
        self._lines = {s.name: 1 for s in self.sources}

    def tighten(self, bound: ImpliedBound) -> None:
        """The model means something only up to a bound; BoundError where nothing is left."""
        known = self.env.of(bound.name)
        if known.low > bound.high:
            raise BoundError(
                f"the model takes {bound.name} up to {bound.high}; it was bounded from "
                f"{known.low} on",
                where=bound.name,
            )
        tight = SymbolBound(known.name, known.low, bound.high, min(known.hint, bound.high))
        rest = tuple(s for s in self.env.symbols if s.name != bound.name)
        self.env = ShapeEnv((*rest, tight))


class Frame:
    """One function being written. `outer` is the one whose values it may read: a loop's or a
    branch's function has one, and what it reads of it becomes a parameter.
    """

    def __init__(self, recorder: Recorder, name: str, outer: Frame | None = None) -> None:
        self.recorder, self.name, self.outer = recorder, name, outer
        self.body: list[Binding] = []
        self.captured: dict[str, Var] = {}  # the outer value's name -> our parameter
        self.read: dict[str, Var] = {}  # the outer value's name -> the outer value
        self.symbols: dict[str, Dim] = {}  # by the names that the user has for them
        self.defined: set[str] = set()  # the symbols that match_casts in here define
        self.closed = False

    def bind(self, names: Sequence[str], types: Sequence[Annotation], expr: Expr) -> list[Var]:
        """A new binding; the source operator that is being traced is its origin."""
        found = [self.recorder.value(n, t) for n, t in zip(names, types, strict=True)]
        self.body.append(Binding(tuple(found), expr, frozenset((current_source(),))))
        return found

    def own(self, var: Var, home: Frame) -> Var:
        """A value as this function sees it: its own, a constant, or captured from around it."""
        if home is self or (home.recorder is self.recorder and var.name in self.recorder.constants):
            return var
        if home.recorder is not self.recorder or home.closed or self.outer is None:
            _refuse(var, home, self)
        if var.name not in self.captured:
            self.read[var.name] = self.outer.own(var, home)
            self.captured[var.name] = self.recorder.value(f"{self.name}.{var.name}", var.type)
        return self.captured[var.name]

    def find_symbol(self, name: str) -> Dim | None:
        """A symbol that a match_cast here, or in a function around, has named so."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.symbols:
                return frame.symbols[name]
            frame = frame.outer
        return None


def _refuse(var: Var, home: Frame, frame: Frame) -> NoReturn:
    line = calling_line()
    if home.recorder is frame.recorder and not home.closed:
        what, instead = f"{frame.name!r} sees only its own parameters", "pass it as an argument"
    else:
        what, instead = f"{home.name!r} is traced already", "give it back as a result"
    raise TraceError(
        f"{line}: {var.name!r} is a value of another function, and {what}; {instead}",
        where=line,
        try_=instead,
    )


_frame: ContextVar[Frame | None] = ContextVar("frame", default=None)
_source: ContextVar[str | None] = ContextVar("source", default=None)


def current_frame() -> Frame:
    """The function that is being written; TraceError outside of a trace."""
    frame = _frame.get()
    if frame is None:
        raise TraceError(
            f"{calling_line()}: a traced value is used after its function was traced; "
            "give it back as a result",
            where=calling_line(),
        )
    return frame


def is_tracing() -> bool:
    """Whether a function is being written."""
    return _frame.get() is not None


@contextmanager
def writing(frame: Frame) -> Iterator[Frame]:
    """Within, operators are recorded in this function, under sources of their own."""
    before, source = _frame.set(frame), _source.set(None)
    try:
        yield frame
    finally:
        _source.reset(source)
        _frame.reset(before)


def current_source() -> str:
    """The source operator that is being traced."""
    name = _source.get()
    assert name is not None, "an operator is recorded outside of any source line"
    return name


@contextmanager
def under(source: str) -> Iterator[None]:
    """Within, everything that is recorded comes from this source operator."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


@contextmanager
def source_of(op: str) -> Iterator[None]:
    """Within, everything that is recorded comes from this line's call of `op`."""
    if _source.get() is not None:
        yield
        return
    with under(current_frame().recorder.source(op)):
        yield
