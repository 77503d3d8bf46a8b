"""Which turns of knobs are compiled before anybody asks for them: those that take long, and only
while no code of the user's own would run.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.passes.policies import registered
from widgets.model.knob import Knob
from widgets.model.own_knobs import PREFIX

SLOW = ("fusion", "control")  # every kernel is priced anew


def unasked(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """The knobs whose other values are compiled while the reader looks."""
    passes = any(k.name.startswith(PREFIX) for k in knobs)
    policies = any(not isinstance(v, str) for k in knobs if k.name in SLOW for v in k.values)
    if passes or policies or registered.every():
        return ()
    return tuple(k for k in knobs if k.name in SLOW)
