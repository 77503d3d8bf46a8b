"""Which loop Grinder's pictures are about, and what a launch and a barrier are supposed to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from explorer.runtime.control.costs import Supposed
from explorer.runtime.control.way_times import Crossing
from widgets.model.on_show import OnShow
from widgets.model.picture import Family, controls

AS_IT_IS = "as it is"  # of the device
LAUNCHES = (AS_IT_IS, "0.1 µs", "1 µs", "5 µs", "20 µs", "100 µs")
BARRIERS = (AS_IT_IS, "0.05 µs", "0.5 µs", "2 µs", "5 µs", "20 µs")


def crossings(s: OnShow) -> tuple[Crossing, ...]:
    """Every loop of what is on show, inner ones first, with what was timed."""
    supposed = supposed_of(s)
    c, sizes = s.now.compiled, s.now.sizes
    known = s.house.kept(repr(supposed), sizes, lambda: c.crossings(dict(sizes), supposed))
    return tuple(replace(x, timed=s.timed(x.loop)) for x in known)


def supposed_of(s: OnShow) -> Supposed:
    """The launch and the barrier of the view; raises BadOption for what cannot be chosen."""
    return Supposed(
        _us(s.view.launch, LAUNCHES, "launch"), _us(s.view.barrier, BARRIERS, "barrier")
    )


def _us(text: str, known: tuple[str, ...], what: str) -> float | None:
    if (text or AS_IT_IS) not in known:
        said = ", ".join(known)
        raise BadOption(f"there is no {what} of {text[:20]!r} to suppose", expected=said)
    return None if text in ("", AS_IT_IS) else float(text.removesuffix(" µs"))


def crossing(s: OnShow, op: str) -> Crossing | None:
    """The loop of the view, else the innermost one around an operator, else the last; None where
    there is none whose sizes are known. Raises BadOption for a loop that there is not.
    """
    found = crossings(s)
    if s.view.loop:
        for x in found:
            if x.loop == s.view.loop:
                return x
        known = ", ".join(x.loop for x in found) or "none"
        raise BadOption(f"there is no loop {s.view.loop[:40]!r}", expected=known)
    around = (x for x in found if op and op in x.origin)
    return next(around, found[-1] if found else None)


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """What may be chosen, with what is on show."""
    found = crossing(s, op)
    if found is None:
        return {}
    names = [x.loop for x in crossings(s)]
    launch, barrier = s.view.launch or AS_IT_IS, s.view.barrier or AS_IT_IS
    own = s.now.compiled.device.kind == "cpu"
    plain = controls(
        s,
        ("loop", "loop", names, names.index(found.loop)),
        ("launch", "a launch takes", list(LAUNCHES), LAUNCHES.index(launch)),
        ("barrier", "a barrier takes", list(BARRIERS), BARRIERS.index(barrier)),
    )
    action = ["crossing", "Measure its schedules", {"loop": found.loop}]
    return {**plain, "action": action if own else []}


def _about(s: OnShow, op: str) -> tuple[str, ...]:
    found = crossing(s, op)
    return found.origin if found else ()


LOOPS = Family("loops", _controls, _about)
