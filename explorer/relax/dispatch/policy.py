"""Choice of the operators that go to a library: patterns in order, with each refusal's reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.errors import BadOption, ShapeError
from explorer.ir.calls import LibraryCall, OpCall, Var
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.ops.reference.libraries import WRONG_IN_ONNX
from explorer.ops.reference.library_functions import accepted
from explorer.ops.reference.verify import same
from explorer.passes.pipeline.policy_call import PolicyCall, a, shown
from explorer.relax.deduction.knowledge import is_known
from explorer.relax.deduction.library import library_call
from explorer.relax.dispatch.pattern import Match, find
from explorer.relax.dispatch.registry import LibraryPattern


@dataclass(frozen=True, slots=True)
class Moved:
    """A match of a pattern: its operators, and the library they go to, or why not."""

    value: str
    operators: tuple[str, ...]
    library: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class DispatchChoice:
    """A match that is taken, with its pattern."""

    pattern: LibraryPattern
    match: Match


def choose(
    program: Program, function: Function, patterns: Sequence[LibraryPattern]
) -> tuple[tuple[DispatchChoice, ...], tuple[Moved, ...]]:
    """Return the matches to take, and all matches; no binding is in two of them.

    Intermediates of a match have no other reader. So a call in place of its last binding reads only
    earlier values, and no cycle can arise.
    """
    outputs = {v.name for v in function.outputs}
    uses = Counter(v.name for b in function.body for v in b.reads)
    makers = {b.var.name: b for b in function.body if len(b.vars) == 1}
    taken: set[str] = set()
    chosen: list[DispatchChoice] = []
    rows: list[Moved] = []
    for pattern in patterns:
        for binding in reversed(function.body):
            for match in _matches(pattern, binding, makers, program):
                names = [b.vars[0].name for b in match.bindings]
                if taken & set(names):
                    continue
                why = _refusal(match, pattern, uses, outputs, program)
                words = tuple(b.expr.op for b in match.bindings if isinstance(b.expr, OpCall))
                rows.append(Moved(names[0], words, _name(pattern, words), why))
                if not why:
                    taken.update(names)
                    chosen.append(DispatchChoice(pattern, match))
                    break
    return tuple(chosen), tuple(rows)


def _name(pattern: LibraryPattern, words: tuple[str, ...]) -> str:
    return pattern.name if pattern.function else f"{pattern.library}.{words[0]}"


def _matches(
    pattern: LibraryPattern, binding: Binding, makers: dict[str, Binding], program: Program
) -> list[Match]:
    if not isinstance(binding.expr, OpCall):
        return []
    if pattern.pattern is None:
        return [Match((binding,), binding.expr.args, binding.expr.attrs)]
    return list(find(pattern.pattern, binding, makers, program.constants))


def _refusal(
    match: Match,
    pattern: LibraryPattern,
    uses: Counter[str],
    outputs: set[str],
    program: Program,
) -> str:
    inside = Counter(v.name for b in match.bindings for v in b.reads)
    for binding in match.inner:
        for var in binding.vars:
            if var.name in outputs:
                return f"{var.name} is an output"
            if uses[var.name] > inside[var.name] or var in match.args:
                return f"{var.name} is read elsewhere too"
    if not all(is_known(v) for v in (*match.args, *match.root.vars)):
        return "not all shapes are known before the program runs"
    if (
        pattern.library == "onnx"
        and onnx_call(match, lambda array, hint: match.root.vars[0]) is None
    ):
        return "the onnx package takes no symbolic extents"
    wrong = WRONG_IN_ONNX.get(match.root.expr.op) if isinstance(match.root.expr, OpCall) else None
    if pattern.library == "onnx" and wrong:
        return f"the onnx package's own evaluator {wrong}"
    why = _checked(pattern, match)
    if not why:
        _check_annotation(match, pattern, program)
    return why


def _checked(pattern: LibraryPattern, match: Match) -> str:
    """Return a pattern's refusal; raise BadPolicy if its check raises or returns no string."""
    policy_call = PolicyCall(
        "Relax", pattern.check, f"{match.root.vars[0].name!r} for {pattern.name}"
    )
    with policy_call.guarding():
        why: Any = pattern.check(match)
    if not isinstance(why, str):
        raise policy_call.refused(
            f"returned {a(why)}, not the reason to refuse a match",
            'a string, "" to accept',
            shown(why),
        )
    return why


def onnx_call(match: Match, constant: Callable[[np.ndarray, str], Var]) -> LibraryCall | None:
    """Return one operator as a call of the onnx package.

    Attributes that were arguments become arguments again, as constants.
    """
    call = match.root.op_call
    return library_call(call, RECORDS.get(call.op), constant)


def _check_annotation(match: Match, pattern: LibraryPattern, program: Program) -> None:
    """Raise ShapeError if a function's annotation contradicts the operators' results."""
    if pattern.annotation is None:
        return
    args = [None if a is None else a.type for a in match.args]
    try:
        annotated = pattern.annotation(*args, **accepted(pattern.annotation, match.attrs))
    except Exception as problem:  # a user's code may raise anything
        raise BadOption(
            f"the annotation of {pattern.name} failed: {type(problem).__name__}: {problem}",
            where=pattern.name,
            try_="it takes one tensor annotation for each value of its pattern",
        ) from problem
    types = annotated if isinstance(annotated, tuple) else (annotated,)
    for var, declared in zip(match.root.vars, types, strict=False):
        if not isinstance(declared, Tensor) or not same(var.type, declared, program.env):
            raise ShapeError(
                f"{pattern.name} is annotated to give {declared}, and {var.name!r} is {var.type}",
                where=pattern.name,
                expected=str(var.type),
                actual=str(declared),
                try_="correct the annotation, or narrow the pattern with check=",
            )
