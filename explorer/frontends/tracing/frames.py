"""Functions of a program under construction, and the one being traced."""

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
