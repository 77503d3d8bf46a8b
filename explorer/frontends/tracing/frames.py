"""The functions of a program in the making, and which of them is being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from explorer.errors import TraceError
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.recorder import Recorder
from explorer.ir.calls import Expr, Var
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation


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
        # Arrays of functions around of which elements were changed in here, and where.
        self.changed: list[tuple[Any, str]] = []
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

    def is_around(self, frame: Frame) -> bool:
        """Whether a function is this one, or written inside of it."""
        inner: Frame | None = frame
        while inner is not None and inner is not self:
            inner = inner.outer
        return inner is self

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
