"""PyTorch's loops as ONNX nodes, where its exporter writes none or an invalid one.

A while_loop becomes a Loop that calls the bodies as functions of the model. PyTorch 2.13 gives
those calls an opset version of their own, and refuses them in nested loops and branches. A map
becomes a Scan without state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Translation = Callable[..., Any]


def translations() -> dict[Any, Translation]:
    """Return PyTorch's operators, mapped to the functions that write them as ONNX."""
    maps = import_module("torch._higher_order_ops.map")
    return {
        import_module("torch").ops.higher_order.while_loop: _while_loop,
        maps.map_impl: _map,
    }


def _while_loop(condition: Any, body: Any, carried: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Write `while condition(*carried): carried = body(*carried)`; both also take `more`."""
    ir = import_module("onnx_ir")
    states, others = ([_value(v) for v in values] for values in (carried, more))
    formal = [_body_parameter(f"{body.name}_state{i}", v, v.shape) for i, v in enumerate(states)]
    step, going = (
        ir.Value(name=f"{body.name}_{name}", shape=ir.Shape([]), type=ir.TensorType(kind))
        for name, kind in (("step", ir.DataType.INT64), ("going", ir.DataType.BOOL))
    )
    step_call = _call(body, [*formal, *others])
    next_test = _call(condition, [*step_call.outputs, *others])
    graph = ir.Graph(
        [step, going, *formal],
        [*next_test.outputs, *step_call.outputs],
        nodes=[step_call, next_test],
        name=f"{body.name}_loop",
    )
    first = _add_node(_call(condition, [*states, *others]))
    inputs = [None, first.outputs[0], *states]
    return _add_node(_node("Loop", inputs, len(states), body=graph)).outputs


def _map(body: Any, rows: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Write `body` of each row of the arrays, stacked."""
    ir = import_module("onnx_ir")
    arrays, others = ([_value(v) for v in values] for values in (rows, more))
    formal = [_body_parameter(f"{body.name}_row{i}", v, v.shape[1:]) for i, v in enumerate(arrays)]
    turn = _call(body, [*formal, *others])
    graph = ir.Graph(formal, turn.outputs, nodes=[turn], name=f"{body.name}_scan")
    node = _node("Scan", arrays, len(turn.outputs), body=graph, num_scan_inputs=len(arrays))
    return _add_node(node).outputs


# Nodes.


def _node(op: str, inputs: Sequence[Any], outputs: int, **attributes: Any) -> Any:
    ir = import_module("onnx_ir")
    converted = ir.convenience.convert_attributes(attributes)
    return ir.Node("", op, inputs, converted, num_outputs=outputs)


def _call(function: Any, inputs: Sequence[Any]) -> Any:
    """Return a call of a function of the model, its results named after the function's."""
    ir = import_module("onnx_ir")
    node = ir.Node(function.domain, function.name, inputs, num_outputs=len(function.outputs))
    for formal, result in zip(function.outputs, node.outputs, strict=True):
        result.name = f"{formal.name}_{function.name}"
    return node


def _add_node(node: Any) -> Any:
    """Add the node to the graph that PyTorch's exporter is writing."""
    import_module("onnxscript.evaluator").default().nodes.append(node)
    return node


def _body_parameter(name: str, value: Any, shape: Sequence[Any]) -> Any:
    """Return the parameter of a body for a value, or a row of it."""
    ir = import_module("onnx_ir")
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(value.dtype))


def _value(argument: Any) -> Any:
    """Return a value of the graph; a Python number becomes a constant."""
    ir = import_module("onnx_ir")
    if isinstance(argument, ir.Value):
        return argument
    tensor = ir.tensor(argument)
    constant = _add_node(_node("Constant", [], 1, value=tensor)).outputs[0]
    constant.shape, constant.type = tensor.shape, ir.TensorType(tensor.dtype)
    return constant
