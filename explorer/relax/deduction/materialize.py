"""Known values as constants or `ShapeOf`, and removal of dead bindings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.ir.annotations import symbols_in
from explorer.ir.calls import Branch, Gradient, Loop, MatchCast, OpCall, ShapeOf
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.symbols import defined_by, is_check, needed_by
from explorer.ir.types import Tensor, numpy_dtype
from explorer.relax.deduction.knowledge import Knowledge, all_integers

SHAPES = "folded into shapes"
CONSTANT = "folded into a constant"
DEAD = "nothing reads it"


def materialize(
    function: Function,
    knowledge: Knowledge,
    constants: dict[str, Constant],
    dropped: list[tuple[str, str]],
) -> Function:
    """Drop the bindings that deduction made redundant; `dropped` gets the reasons."""
    live = {v.name for v in function.outputs}
    casts = any(isinstance(b.expr, MatchCast) for b in function.body)
    needed: set[str] = set().union(*(symbols_in(v.type) for v in function.outputs))
    inner = False  # whether a body below sees our symbols
    remaining: list[Binding] = []
    removed: list[tuple[str, str]] = []
    for binding in reversed(function.body):
        is_live = any(v.name in live for v in binding.vars)
        defines = defined_by(binding) if casts else frozenset()
        defines_needed = defines & needed or (inner and defines)
        if not is_live and not defines_needed and not is_check(binding):
            reason = SHAPES if any(knowledge.was_folded(v) for v in binding.vars) else DEAD
            removed += [(o, reason) for o in sorted(binding.origin)]
            continue
        # folded by a library
        computed = bool(binding.vars) and all(v.name in constants for v in binding.vars)
        value = binding if computed else _known_value(binding, knowledge)
        if isinstance(value, Constant):
            constants[binding.var.name] = value
        if computed or isinstance(value, Constant):
            removed += [(o, CONSTANT) for o in sorted(binding.origin)]
            continue
        remaining.append(value)
        live.update(v.name for v in value.reads)
        if casts:
            needed |= needed_by(value)
            inner = inner or isinstance(value.expr, Branch | Loop | Gradient)
    remaining_origins = {o for b in remaining for o in b.origin}
    dropped += [(o, reason) for o, reason in reversed(removed) if o not in remaining_origins]
    return replace(function, body=tuple(reversed(remaining)))


def _known_value(binding: Binding, knowledge: Knowledge) -> Binding | Constant:
    """Return a constant or a `ShapeOf` for an operator whose elements are known."""
    if not isinstance(binding.expr, OpCall) or len(binding.vars) != 1:
        return binding
    elements, type = knowledge.elements.get(binding.var.name), binding.var.type
    if elements is None or not isinstance(type, Tensor):
        return binding
    if all_integers(elements):
        return Constant(
            np.array(elements.tolist(), numpy_dtype(type.element)).reshape(elements.shape)
        )
    if type.dtype == "int64" and elements.ndim <= 1:
        dims = tuple(elements.reshape(-1).tolist())
        return replace(binding, expr=ShapeOf(dims, elements.ndim))
    return binding
