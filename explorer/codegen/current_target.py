"""The target of the code being emitted, which emitters of LLVM IR query for its features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from explorer.devices.target import Target

ANY = Target()
_now: ContextVar[Target] = ContextVar("target", default=ANY)


@contextmanager
def compiling_for(target: Target) -> Iterator[None]:
    """Set the target for the code emitted inside of the context."""
    before = _now.set(target)
    try:
        yield
    finally:
        _now.reset(before)


def target() -> Target:
    """Return the target of the code being emitted."""
    return _now.get()
