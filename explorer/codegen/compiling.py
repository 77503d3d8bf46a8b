"""What the code is for that is being written now: pieces of LLVM code ask it what they may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from explorer.devices.target import Target

ANY = Target()
_now: ContextVar[Target] = ContextVar("target", default=ANY)


@contextmanager
def compiling_for(target: Target) -> Iterator[None]:
    """Inside, code is written for a target."""
    before = _now.set(target)
    try:
        yield
    finally:
        _now.reset(before)


def target() -> Target:
    """What the code is for that is being written."""
    return _now.get()
