"""Questions about a kernel's tile edited by hand: its choices, the model's verdict, its timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from widgets.model.knobs import with_tile
from widgets.model.outline import tiling_text
from widgets.session.mutable_session import MutableSession
from widgets.session.timing.tuning import tiling_of
from widgets.session.verdict import HistoryEntry


def tuning(s: MutableSession, op: int) -> Any:
    """Return the form of an operator's tile."""
    return s.bench.form(s.now, s.house, op)


def judge(s: MutableSession, op: int, fields: Mapping[str, Any]) -> Any:
    """Return the rule that a tile breaks, or the model's prediction."""
    return s.bench.judge(s.now, s.house, op, fields)


def time_tile(s: MutableSession, op: int, fields: Mapping[str, Any]) -> Any:
    """Begin to time a tile against the one in use."""
    return s.bench.start(s.now, s.house, op, fields)


def take(s: MutableSession, op: int, fields: Mapping[str, Any]) -> Any:
    """Pin a tile and compile; raises BadOption if it is not legal."""
    subject = s.bench.subject(s.now, s.house, op)
    tiling = tiling_of(fields, subject)
    what = f"tile of {subject.label} → {tiling_text(tiling)}"
    return s.show_next(HistoryEntry(with_tile(s.now, subject.binding, tiling), what))


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "tuning": tuning,
    "judge": judge,
    "time_tile": time_tile,
    "take": take,
}
