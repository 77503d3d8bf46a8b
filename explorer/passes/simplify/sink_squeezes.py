"""A Squeeze whose rank only a run knows goes behind what is done element by element."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.ops.site import Site
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched


@compiler_pass("sink-squeezes", paper="none: element-wise operators commute with reshapes")
def sink_squeezes(program: Program) -> Program:
    """After: no Squeeze without axes of symbolic dims is read by one element-wise operator alone,
    whose other arguments are scalars.

    `a = Squeeze(x); y = Sigmoid(a)` becomes `b = Sigmoid(x); y = Squeeze(b)`: what follows a value
    of unknown rank is left to a library, call by call.
    """
    functions = tuple(_sunk(f, program.env) for f in program.functions)
    if all(a is b for a, b in zip(functions, program.functions, strict=True)):
        return program
    return replace(program, functions=functions)


def _sunk(function: Function, env: ShapeEnv) -> Function:
    reads = Counter(v.name for b in function.body for v in b.reads)
    reads.update(v.name for v in function.outputs)
    squeezed: dict[str, Binding] = {}  # by what they give
    body: dict[str, Binding] = {}
    for binding in function.body:
        found = next((squeezed[v.name] for v in binding.reads if v.name in squeezed), None)
        if found is not None and reads[found.name] == 1 and _is_by_element(binding, found.var):
            before = _before(binding, found, env, {*body, *(b.name for b in function.body)})
            del body[found.name]
            body[before.name] = before
            assert isinstance(found.expr, OpCall)
            squeeze = replace(found.expr, args=before.vars)
            after = Binding(binding.vars, squeeze, binding.origin | found.origin)
            matched(sink_squeezes, (found, binding), (before, after))
            binding = after
        if _has_unknown_rank(binding):
            squeezed[binding.name] = binding
        body[binding.name] = binding
    made = tuple(body.values())
    return function if made == function.body else replace(function, body=made)


def _before(binding: Binding, squeeze: Binding, env: ShapeEnv, taken: set[str]) -> Binding:
    """The operator on what is squeezed."""
    call, (whole,) = binding.expr, squeeze.reads
    assert isinstance(call, OpCall)
    call = replace(call, args=tuple(whole if a == squeeze.var else a for a in call.args))
    site = Site(call.op, binding.name, call.args, dict(call.attrs), env)
    (kind,) = RECORDS[call.op].deduce(site)
    return Binding((Var(fresh(f"{binding.name}.whole", taken), kind),), call, binding.origin)


def _has_unknown_rank(binding: Binding) -> bool:
    call, kind = binding.expr, binding.vars[0].type
    is_squeeze = isinstance(call, OpCall) and call.op == "Squeeze" and len(binding.reads) == 1
    if not is_squeeze or not isinstance(kind, Tensor) or kind.shape is not None:
        return False
    (whole,) = binding.reads
    return isinstance(whole.type, Tensor) and whole.type.is_known


def _is_by_element(binding: Binding, squeezed: Var) -> bool:
    """Whether each element of one result follows from that of the squeezed value alone."""
    call = binding.expr
    if not isinstance(call, OpCall) or len(binding.vars) != 1:
        return False
    record = RECORDS.get(call.op)
    others = [a.type for a in call.args if a is not None and a != squeezed]
    if record is None or record.family != "elementwise" or record.by_value:
        return False
    return all(isinstance(t, Tensor) and t.shape == () for t in others)
