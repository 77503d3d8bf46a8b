"""Dispatch: matched operators become one library call; the others are lowered later.

h = MatMul(x, w); y = Add(h, b)   ->   y = library blas.matmul_add(x, w, b)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import LibraryCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor, dtype_of
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import record_match
from explorer.relax.dispatch.policy import DispatchChoice, Moved, choose, onnx_call
from explorer.relax.dispatch.registry import LibraryPattern


@compiler_pass("dispatch", paper="Relax, ASPLOS 2025, section 4.6: partial library lowering")
@dataclass(frozen=True, slots=True)
class Dispatch:
    """Library calls for the operators that match a pattern.

    After: matched operators are library calls, all others are unchanged.
    """

    patterns: tuple[LibraryPattern, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with library calls, and every match among its decisions."""
        rows: list[Moved] = []
        constants = dict(program.constants)
        for function in program.functions:
            chosen, matches = choose(program, function, self.patterns)
            rows += matches
            program = program.with_function(_moved(function, chosen, constants))
        decisions = replace(program.decisions, dispatch=tuple(rows))
        return replace(program, constants=constants, decisions=decisions)


def _moved(
    function: Function, chosen: tuple[DispatchChoice, ...], constants: dict[str, Constant]
) -> Function:
    calls = {c.match.root.vars[0].name: c for c in chosen}
    replaced = {b.vars[0].name for c in chosen for b in c.match.inner}
    body: list[Binding] = []
    for binding in function.body:
        name = binding.vars[0].name if binding.vars else ""
        if name in replaced:
            continue
        if name in calls:
            library_binding = _call(calls[name], constants)
            pattern = calls[name].pattern
            title = f"{pattern.library}.{pattern.function or 'any operator'}"
            record_match(pattern.check, calls[name].match.bindings, (library_binding,), title)
            binding = library_binding
        body.append(binding)
    return replace(function, body=tuple(body))


def _call(choice: DispatchChoice, constants: dict[str, Constant]) -> Binding:
    """Return the library call that replaces the operators."""
    pattern, match = choice.pattern, choice.match
    name = match.root.vars[0].name

    def constant(array: np.ndarray, hint: str) -> Var:
        var = Var(f"{name}.{hint}", Tensor(tuple(array.shape), dtype_of(array)))
        constants[var.name] = Constant(array)
        return var

    expr = LibraryCall(pattern.library, pattern.function, match.args, match.attrs)
    if pattern.library == "onnx":
        onnx_expr = onnx_call(match, constant)
        assert onnx_expr is not None, "the policy takes what the onnx package takes"
        expr = onnx_expr
    origin = frozenset[str]().union(*(b.origin for b in match.bindings))
    return Binding(match.root.vars, expr, origin)
