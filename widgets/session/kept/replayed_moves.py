"""What was done by hand in a setting, as a saved state holds it, and done again: values put at
memory levels, bricks put elsewhere on the wall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Any

from explorer.rammer.moved_by_hand import ByHand, Move
from widgets.model.knobs import Setting
from widgets.session.state import State
from widgets.welder import judged


def told(now: Setting, kept: State) -> State:
    """The state with what was done by hand; the policy knob has the name of what it began with."""
    options = now.compiled.options
    policy, knobs, moves = options.rammer.policy, dict(kept.knobs), tuple[Any, ...]()
    if isinstance(policy, ByHand):
        knobs["policy"], moves = policy.base_name, tuple(map(astuple, policy.moves))
    return replace(kept, knobs=knobs, connect=options.welder.connect, moves=moves)


def again(now: Setting, found: State) -> Iterator[tuple[Setting, str]]:
    """The settings that a state's moves lead to, each with what was done: nothing where they stand
    already. Raises BadOption for a value that no kernel makes, and for a level that there is not.
    """
    known = dict(now.compiled.options.welder.connect)
    connect = [(v, level) for v, level in found.connect if known.get(v) != level]
    if connect:
        now = replace(now, compiled=judged.compiled(now.compiled, connect))
        yield now, ", ".join(f"{value} → {level}" for value, level in connect)
    if found.moves:
        rammer = now.compiled.options.rammer
        by_hand = ByHand(rammer.policy, tuple(Move(*row) for row in found.moves))
        changed = now.compiled.with_options(rammer=replace(rammer, policy=by_hand))
        yield replace(now, compiled=changed), by_hand.__name__
