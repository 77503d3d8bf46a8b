"""The loop shown by Grinder's pictures, and the assumed costs of a launch and a barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from explorer.runtime.control.costs import AssumedCosts
from explorer.runtime.control.schedule_times import Crossing
from widgets.model.on_show import OnShow
from widgets.model.picture import Family, controls

AS_IT_IS = "as it is"  # the device's own value
LAUNCHES = (AS_IT_IS, "0.1 µs", "1 µs", "5 µs", "20 µs", "100 µs")
BARRIERS = (AS_IT_IS, "0.05 µs", "0.5 µs", "2 µs", "5 µs", "20 µs")


def crossings(s: OnShow) -> tuple[Crossing, ...]:
    """Return the crossing of every loop in the current program, inner loops first, with timings."""
    supposed = assumed_costs(s)
    c, sizes = s.now.compiled, s.now.sizes
    computed = s.house.cached(repr(supposed), sizes, lambda: c.crossings(dict(sizes), supposed))
    return tuple(replace(x, timed=s.timed(x.loop)) for x in computed)


def assumed_costs(s: OnShow) -> AssumedCosts:
    """Return the launch and barrier costs of the view; raises BadOption for an unknown choice."""
    return AssumedCosts(
        _us(s.view.launch, LAUNCHES, "launch"), _us(s.view.barrier, BARRIERS, "barrier")
    )


def _us(text: str, choices: tuple[str, ...], what: str) -> float | None:
    if (text or AS_IT_IS) not in choices:
        expected = ", ".join(choices)
        raise BadOption(f"unknown {what} time {text[:20]!r}", expected=expected)
    return None if text in ("", AS_IT_IS) else float(text.removesuffix(" µs"))


def crossing(s: OnShow, op: str) -> Crossing | None:
    """Return the loop of the view, else the innermost one around an operator, else the last.

    Return None if no loop has known sizes. Raises BadOption if the view names an unknown loop.
    """
    candidates = crossings(s)
    if s.view.loop:
        for x in candidates:
            if x.loop == s.view.loop:
                return x
        names = ", ".join(x.loop for x in candidates) or "none"
        raise BadOption(f"the program has no loop {s.view.loop[:40]!r}", expected=names)
    around = (x for x in candidates if op and op in x.origin)
    return next(around, candidates[-1] if candidates else None)


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of the picture with their current values."""
    selected = crossing(s, op)
    if selected is None:
        return {}
    names = [x.loop for x in crossings(s)]
    launch, barrier = s.view.launch or AS_IT_IS, s.view.barrier or AS_IT_IS
    own = s.now.compiled.device.kind == "cpu"
    plain = controls(
        s,
        ("loop", "loop", names, names.index(selected.loop)),
        ("launch", "a launch takes", list(LAUNCHES), LAUNCHES.index(launch)),
        ("barrier", "a barrier takes", list(BARRIERS), BARRIERS.index(barrier)),
    )
    action = ["crossing", "Measure its schedules", {"loop": selected.loop}]
    return {**plain, "action": action if own else []}


def _about(s: OnShow, op: str) -> tuple[str, ...]:
    selected = crossing(s, op)
    return selected.origin if selected else ()


LOOPS = Family("loops", _controls, _about)
