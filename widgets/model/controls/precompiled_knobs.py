"""Knobs whose values are compiled in advance: slow ones, if no user code would run."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.passes.policies import registered
from widgets.model.knob import Knob
from widgets.model.own_knobs import PREFIX

SLOW = ("fusion", "control")  # they reprice every kernel


def precompiled_knobs(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """Return the knobs whose other values are compiled in advance."""
    passes = any(k.name.startswith(PREFIX) for k in knobs)
    policies = any(not isinstance(v, str) for k in knobs if k.name in SLOW for v in k.values)
    if passes or policies or registered.all_policies():
        return ()
    return tuple(k for k in knobs if k.name in SLOW)
