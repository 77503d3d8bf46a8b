"""Loops of PyTorch's as nodes of ONNX, where its exporter writes none or one that it cannot place.

Its while_loop becomes a Loop that calls the bodies as functions of the model: PyTorch 2.13 gives
those calls a version of their own, and refuses them where the loop holds another loop or a branch.
Its map becomes a Scan that carries nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Translation = Callable[..., Any]


def translations() -> dict[Any, Translation]:
    """PyTorch's operators -> what writes a call of them as ONNX."""
    maps = import_module("torch._higher_order_ops.map")
    return {
        import_module("torch").ops.higher_order.while_loop: _while_loop,
        maps.map_impl: _map,
    }


def _while_loop(condition: Any, body: Any, carried: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """`while condition(*carried): carried = body(*carried)`; both also take the values `more`."""
    ir = import_module("onnx_ir")
    states, others = ([_value(v) for v in values] for values in (carried, more))
    formal = [_formal(f"{body.name}_state{i}", v, v.shape) for i, v in enumerate(states)]
    step, going = (
        ir.Value(name=f"{body.name}_{name}", shape=ir.Shape([]), type=ir.TensorType(kind))
        for name, kind in (("step", ir.DataType.INT64), ("going", ir.DataType.BOOL))
    )
    turn = _call(body, [*formal, *others])
    again = _call(condition, [*turn.outputs, *others])
    graph = ir.Graph(
        [step, going, *formal],
        [*again.outputs, *turn.outputs],
        nodes=[turn, again],
        name=f"{body.name}_loop",
    )
    first = _placed(_call(condition, [*states, *others]))
    inputs = [None, first.outputs[0], *states]
    return _placed(_node("Loop", inputs, len(states), body=graph)).outputs


def _map(body: Any, rows: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """`body` of each row of the arrays, stacked."""
    ir = import_module("onnx_ir")
    arrays, others = ([_value(v) for v in values] for values in (rows, more))
    formal = [_formal(f"{body.name}_row{i}", v, v.shape[1:]) for i, v in enumerate(arrays)]
    turn = _call(body, [*formal, *others])
    graph = ir.Graph(formal, turn.outputs, nodes=[turn], name=f"{body.name}_scan")
    node = _node("Scan", arrays, len(turn.outputs), body=graph, num_scan_inputs=len(arrays))
    return _placed(node).outputs


# Nodes.


def _node(op: str, inputs: Sequence[Any], outputs: int, **attributes: Any) -> Any:
    ir = import_module("onnx_ir")
    given = ir.convenience.convert_attributes(attributes)
    return ir.Node("", op, inputs, given, num_outputs=outputs)


def _call(function: Any, inputs: Sequence[Any]) -> Any:
    """A call of a function of the model, its results named by its own."""
    ir = import_module("onnx_ir")
    node = ir.Node(function.domain, function.name, inputs, num_outputs=len(function.outputs))
    for formal, result in zip(function.outputs, node.outputs, strict=True):
        result.name = f"{formal.name}_{function.name}"
    return node


def _placed(node: Any) -> Any:
    """The node, added to the graph that PyTorch's exporter is writing."""
    import_module("onnxscript.evaluator").default().nodes.append(node)
    return node


def _formal(name: str, value: Any, shape: Sequence[Any]) -> Any:
    """The parameter of a body that takes a value, or a row of it."""
    ir = import_module("onnx_ir")
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(value.dtype))


def _value(given: Any) -> Any:
    """A value of the graph; a number of Python's becomes a constant."""
    ir = import_module("onnx_ir")
    if isinstance(given, ir.Value):
        return given
    tensor = ir.tensor(given)
    made = _placed(_node("Constant", [], 1, value=tensor)).outputs[0]
    made.shape, made.type = tensor.shape, ir.TensorType(tensor.dtype)
    return made
