"""Dispatch: matched operators become one library call; what does not match is lowered later.

h = MatMul(x, w); y = Add(h, b)   ->   y = library blas.matmul_add(x, w, b)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import LibraryCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor, dtype_of
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched
from explorer.relax.dispatch.policy import Choice, Moved, choose, onnx_call
from explorer.relax.dispatch.registry import LibraryPattern


@compiler_pass("dispatch", paper="Relax, ASPLOS 2025, section 4.6: partial library lowering")
@dataclass(frozen=True, slots=True)
class Dispatch:
    """After: operators that match a pattern are library calls; all others are as they were."""

    patterns: tuple[LibraryPattern, ...] = ()

    def __call__(self, program: Program) -> Program:
        """The program with library calls, and every match among its decisions."""
        rows: list[Moved] = []
        constants = dict(program.constants)
        for function in program.functions:
            chosen, found = choose(program, function, self.patterns)
            rows += found
            program = program.with_function(_moved(function, chosen, constants))
        decisions = replace(program.decisions, dispatch=tuple(rows))
        return replace(program, constants=constants, decisions=decisions)


def _moved(
    function: Function, chosen: tuple[Choice, ...], constants: dict[str, Constant]
) -> Function:
    calls = {c.match.root.vars[0].name: c for c in chosen}
    gone = {b.vars[0].name for c in chosen for b in c.match.inner}
    body: list[Binding] = []
    for binding in function.body:
        name = binding.vars[0].name if binding.vars else ""
        if name in gone:
            continue
        if name in calls:
            made = _call(calls[name], constants)
            pattern = calls[name].pattern
            title = f"{pattern.library}.{pattern.function or 'any operator'}"
            matched(pattern.check, calls[name].match.bindings, (made,), title)
            binding = made
        body.append(binding)
    return replace(function, body=tuple(body))


def _call(choice: Choice, constants: dict[str, Constant]) -> Binding:
    """The library call in the place of the operators."""
    pattern, match = choice.pattern, choice.match
    name = match.root.vars[0].name

    def constant(array: np.ndarray, hint: str) -> Var:
        made = Var(f"{name}.{hint}", Tensor(tuple(array.shape), dtype_of(array)))
        constants[made.name] = Constant(array)
        return made

    expr = LibraryCall(pattern.library, pattern.function, match.args, match.attrs)
    if pattern.library == "onnx":
        found = onnx_call(match, constant)
        assert found is not None, "the policy takes what the onnx package takes"
        expr = found
    origin = frozenset[str]().union(*(b.origin for b in match.bindings))
    return Binding(match.root.vars, expr, origin)
