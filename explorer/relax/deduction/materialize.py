"""Known values become constants or `ShapeOf`; what nothing reads leaves the function."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.ir.annotations import symbols_in
from explorer.ir.calls import Branch, Gradient, Loop, MatchCast, OpCall, ShapeOf
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.symbols import defined_by, is_check, needed_by
from explorer.ir.types import Tensor, numpy_dtype
from explorer.relax.deduction.known import Knowledge, all_integers

SHAPES = "folded into shapes"
CONSTANT = "folded into a constant"
DEAD = "nothing reads it"


def materialize(
    function: Function,
    known: Knowledge,
    constants: dict[str, Constant],
    dropped: list[tuple[str, str]],
) -> Function:
    """The function without what deduction has done for it; `dropped` gets the reasons."""
    live = {v.name for v in function.outputs}
    casts = any(isinstance(b.expr, MatchCast) for b in function.body)
    needed: set[str] = set().union(*(symbols_in(v.type) for v in function.outputs))
    inner = False  # whether a body below sees our symbols
    kept: list[Binding] = []
    gone: list[tuple[str, str]] = []
    for binding in reversed(function.body):
        wanted = any(v.name in live for v in binding.vars)
        defines = defined_by(binding) if casts else frozenset()
        named = defines & needed or (inner and defines)
        if not wanted and not named and not is_check(binding):
            reason = SHAPES if any(known.was_folded(v) for v in binding.vars) else DEAD
            gone += [(o, reason) for o in sorted(binding.origin)]
            continue
        # what a library computed, of constants
        computed = bool(binding.vars) and all(v.name in constants for v in binding.vars)
        found = binding if computed else _known_value(binding, known)
        if isinstance(found, Constant):
            constants[binding.var.name] = found
        if computed or isinstance(found, Constant):
            gone += [(o, CONSTANT) for o in sorted(binding.origin)]
            continue
        kept.append(found)
        live.update(v.name for v in found.reads)
        if casts:
            needed |= needed_by(found)
            inner = inner or isinstance(found.expr, Branch | Loop | Gradient)
    standing = {o for b in kept for o in b.origin}
    dropped += [(o, reason) for o, reason in reversed(gone) if o not in standing]
    return replace(function, body=tuple(reversed(kept)))


def _known_value(binding: Binding, known: Knowledge) -> Binding | Constant:
    """A constant or a `ShapeOf` in place of an operator whose elements are known."""
    if not isinstance(binding.expr, OpCall) or len(binding.vars) != 1:
        return binding
    elements, type = known.elements.get(binding.var.name), binding.var.type
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
