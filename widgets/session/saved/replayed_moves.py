"""Manual moves of a setting in a saved state: values at memory levels, bricks on the wall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Any

from explorer.rammer.manual_moves import Move, PolicyWithMoves
from widgets.model.knobs import Setting
from widgets.session.state import State
from widgets.welder import judge_moves


def with_manual_moves(now: Setting, state: State) -> State:
    """Return the state with the manual moves; the policy knob names their base policy."""
    options = now.compiled.options
    policy, knobs, moves = options.rammer.policy, dict(state.knobs), tuple[Any, ...]()
    if isinstance(policy, PolicyWithMoves):
        knobs["policy"], moves = policy.base_name, tuple(map(astuple, policy.moves))
    return replace(state, knobs=knobs, connect=options.welder.connect, moves=moves)


def replay_moves(now: Setting, state: State) -> Iterator[tuple[Setting, str]]:
    """Yield the settings that a state's moves lead to, each with its description.

    Nothing if the moves are already in place. Raises BadOption for a value that no kernel computes
    and for an unknown level.
    """
    present_levels = dict(now.compiled.options.welder.connect)
    connect = [(v, level) for v, level in state.connect if present_levels.get(v) != level]
    if connect:
        now = replace(now, compiled=judge_moves.compile_moves(now.compiled, connect))
        yield now, ", ".join(f"{value} → {level}" for value, level in connect)
    if state.moves:
        rammer = now.compiled.options.rammer
        by_hand = PolicyWithMoves(rammer.policy, tuple(Move(*row) for row in state.moves))
        changed = now.compiled.with_options(rammer=replace(rammer, policy=by_hand))
        yield replace(now, compiled=changed), by_hand.__name__
