"""Squeezes of unknown rank, moved behind element-wise operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from explorer.ir.calls import OpCall, Var
from explorer.ir.dims import ShapeEnv
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.ops.record import Site
from explorer.passes.registry import compiler_pass
from explorer.transforms.rewrite import record_match


@compiler_pass("sink-squeezes", paper="none: element-wise operators commute with reshapes")
def sink_squeezes(program: Program) -> Program:
    """Move a Squeeze of unknown rank behind the element-wise operator that reads it.

    After: no Squeeze without axes of symbolic dims is read by one element-wise operator alone,
    whose other arguments are scalars. `a = Squeeze(x); y = Sigmoid(a)` becomes `b = Sigmoid(x); y =
    Squeeze(b)`: operators on values of unknown rank would be library calls.
    """
    functions = tuple(_sink_function(f, program.env) for f in program.functions)
    if all(a is b for a, b in zip(functions, program.functions, strict=True)):
        return program
    return replace(program, functions=functions)


def _sink_function(function: Function, env: ShapeEnv) -> Function:
    reads = Counter(v.name for b in function.body for v in b.reads)
    reads.update(v.name for v in function.outputs)
    squeezed: dict[str, Binding] = {}  # by result
    body: dict[str, Binding] = {}
    for binding in function.body:
        squeeze_binding = next(
            (squeezed[v.name] for v in binding.reads if v.name in squeezed), None
        )
        if (
            squeeze_binding is not None
            and reads[squeeze_binding.name] == 1
            and _is_by_element(binding, squeeze_binding.var)
        ):
            before = _unsqueezed_operator(
                binding, squeeze_binding, env, {*body, *(b.name for b in function.body)}
            )
            del body[squeeze_binding.name]
            body[before.name] = before
            assert isinstance(squeeze_binding.expr, OpCall)
            squeeze = replace(squeeze_binding.expr, args=before.vars)
            after = Binding(binding.vars, squeeze, binding.origin | squeeze_binding.origin)
            record_match(sink_squeezes, (squeeze_binding, binding), (before, after))
            binding = after
        if _has_unknown_rank(binding):
            squeezed[binding.name] = binding
        body[binding.name] = binding
    sunk_body = tuple(body.values())
    return function if sunk_body == function.body else replace(function, body=sunk_body)


def _unsqueezed_operator(
    binding: Binding, squeeze: Binding, env: ShapeEnv, taken: set[str]
) -> Binding:
    """Apply the operator to the unsqueezed value."""
    call, (unsqueezed,) = binding.expr, squeeze.reads
    assert isinstance(call, OpCall)
    call = replace(call, args=tuple(unsqueezed if a == squeeze.var else a for a in call.args))
    site = Site(call.op, binding.name, call.args, dict(call.attrs), env)
    (kind,) = RECORDS[call.op].deduce(site)
    return Binding((Var(fresh(f"{binding.name}.whole", taken), kind),), call, binding.origin)


def _has_unknown_rank(binding: Binding) -> bool:
    call, kind = binding.expr, binding.vars[0].type
    is_squeeze = isinstance(call, OpCall) and call.op == "Squeeze" and len(binding.reads) == 1
    if not is_squeeze or not isinstance(kind, Tensor) or kind.shape is not None:
        return False
    (unsqueezed,) = binding.reads
    return isinstance(unsqueezed.type, Tensor) and unsqueezed.type.is_known


def _is_by_element(binding: Binding, squeezed: Var) -> bool:
    """Return True if each result element depends only on the same element of the squeezed value."""
    call = binding.expr
    if not isinstance(call, OpCall) or len(binding.vars) != 1:
        return False
    record = RECORDS.get(call.op)
    others = [a.type for a in call.args if a is not None and a != squeezed]
    if record is None or record.family != "elementwise" or record.by_value:
        return False
    return all(isinstance(t, Tensor) and t.shape == () for t in others)
