"""Import of a torch.export.ExportedProgram.

Its operators are translated one by one. If one is unknown, PyTorch's own exporter writes the
program as ONNX. No file is written: weights are copied from PyTorch's tensors to constants.
`torch.cond`, while_loop, scan and map become branches and loops of the program, with the tensors
that their bodies capture.

Some loops are written as ONNX nodes here, because PyTorch's exporter writes none or an invalid one.
A while_loop becomes a Loop that calls the bodies as functions of the model: PyTorch 2.13 gives
those calls an opset version of their own, and refuses them in nested loops and branches. A map
becomes a Scan without state.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeGuard

import numpy as np
import onnx

from explorer.errors import BoundError, UnsupportedOperator
from explorer.frontends.model import Bounds, Model, symbol_name
from explorer.frontends.onnx.importer import from_file
from explorer.frontends.onnx.onnx_file import OnnxFile
from explorer.frontends.torch.graphs import changed_input, first_line, prepare_bodies
from explorer.ir.text.program_text import print_program

OPSET = 20  # the version that PyTorch's exporter targets
Ranges = Mapping[str, "tuple[int, int | None]"]
UNBOUNDED = 1 << 60  # PyTorch's bounds from here on mean unbounded


def is_exported(source: Any) -> TypeGuard[Any]:
    """Return True for a result of `torch.export.export`."""
    kind = type(source)
    return kind.__module__.startswith("torch.") and kind.__name__ == "ExportedProgram"


def load_exported(program: Any, bounds: Bounds | None = None, *, folds: bool = True) -> Model:
    """Return the model of an ExportedProgram.

    Dynamic dims keep their names and ranges, which `bounds` may only narrow. With `folds`,
    PyTorch's exporter may fold weights, such as a norm's into a convolution's. Otherwise each
    constant is the parameter of its name.

    Raises:
        UnsupportedOperator: an operator has no translation here and none in ONNX, computes another
            result than in PyTorch, or is a loop or branch that ONNX cannot express.
    """
    names = _dim_names(program)
    ranges = _ranges(program, names)
    try:
        return _by_operators(program, names, ranges, bounds or {}, not folds)
    except UnsupportedOperator as unknown:
        try:
            return _by_onnx(program, names, ranges, bounds or {}, folds)
        except UnsupportedOperator as refused:
            raise UnsupportedOperator(
                f"{unknown.sentence}; {refused.sentence}",
                where=unknown.where,
                try_=refused.try_,
            ) from unknown


def _by_operators(
    program: Any, names: Mapping[str, str], ranges: Ranges, bounds: Bounds, trains: bool
) -> Model:
    """Translate PyTorch's operators one by one."""
    # imported lazily, since other models do not need it
    from explorer.frontends.torch.check_program import check_program
    from explorer.frontends.torch.functionalize import functionalize
    from explorer.frontends.torch.importer import import_program, symbols_of

    name = _name(program)
    used = set(symbols_of(program, names))
    limits = _narrow_bounds({n: r for n, r in ranges.items() if n in used}, bounds)
    with _silenced():
        graph = functionalize(program)
    imported, state = import_program(graph, names, limits, name, trains=trains)
    check_program(graph, imported, {n: s.first for n, s in state.items()})
    head = print_program(replace(imported, constants={})).encode()
    return Model(name, f"torch.export:{name}", imported, head, state=state)


def _by_onnx(
    program: Any, names: Mapping[str, str], ranges: Ranges, bounds: Bounds, folds: bool
) -> Model:
    """Import the program as PyTorch's exporter writes it in ONNX."""
    from explorer.frontends.torch.check_program import check_written

    targets = {s.arg.name: s.target for s in program.graph_signature.input_specs}
    changed = next(filter(None, map(changed_input, program.graph.nodes)), "")
    if folds and targets.get(changed):
        raise UnsupportedOperator(
            f"the buffer {targets[changed]!r} is changed, which ONNX cannot express",
            where=targets[changed],
            try_="the buffer as an input and an output of the module",
        )
    proto, weights = _as_onnx(program, folds)
    _rename_dims(proto, names)
    head = proto.SerializeToString()
    used = {d.dim_param for i in proto.graph.input for d in i.type.tensor_type.shape.dim}
    limits = _narrow_bounds({n: r for n, r in ranges.items() if n in used}, bounds)
    name = _name(program)
    imported = from_file(OnnxFile(proto, weights, head), name, f"torch.export:{name}", limits)
    check_written(program, imported.program)
    return imported


def _name(program: Any) -> str:
    """Return the class of the exported module."""
    calls = getattr(program, "module_call_graph", None) or []
    kinds = [m for n in program.graph.nodes for m in n.meta.get("nn_module_stack", {}).values()]
    outermost = next((kind for path, kind in kinds if path == ""), None) if calls else None
    text = outermost if isinstance(outermost, str) else getattr(outermost, "__name__", "")
    return text.rpartition(".")[2] or "exported"


# ONNX.


def _as_onnx(program: Any, folds: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the graph without its weights, and the weights."""
    try:
        torch, onnx_ir, _ = map(import_module, ("torch", "onnx_ir", "onnxscript"))
    except ImportError as error:
        raise UnsupportedOperator(
            f"PyTorch writes ONNX with the package {error.name!r}, which is not installed",
            where=error.name,
            try_="pip install 'ironworks[peers]'",
        ) from error
    with _silenced():
        plain = prepare_bodies(program)
    try:
        with (
            _silenced(),
            torch.no_grad(),
        ):  # PyTorch 2.13 has no derivative of a loop of several values
            written = torch.onnx.export(
                plain,
                dynamo=True,
                opset_version=OPSET,
                verbose=False,
                optimize=folds,
                custom_translation_table=_translations(),
            )
    except Exception as error:  # the exporter raises exceptions of any type
        raise UnsupportedOperator(
            f"PyTorch's exporter has no ONNX for this program: {_first_reason(error)}",
            where=_name(program),
            try_="torch.onnx.export(program, dynamo=True, report=True), for a report",
        ) from error
    assert written is not None
    initializers = written.model.graph.initializers
    weights = {n: _array(v.const_value) for n, v in initializers.items()}
    for value in list(initializers.values()):
        value.const_value = None
    initializers.clear()
    proto: onnx.ModelProto = onnx_ir.serde.serialize_model(written.model)
    return proto, weights


def _array(tensor: Any) -> np.ndarray:
    """Return a copy of the values, since PyTorch may continue training."""
    return np.array(tensor.numpy(), copy=True, order="C").reshape(tuple(tensor.shape))


def _first_reason(error: BaseException) -> str:
    """Return the first line of an error's root cause, without the exporter's advice."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return first_line(root)


@contextmanager
def _silenced() -> Iterator[None]:
    """Suppress the exporter's log messages and warnings."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


# Dims.


def _dim_names(program: Any) -> dict[str, str]:
    """Return PyTorch's symbols, mapped to the names that `torch.export.Dim` gave them."""
    dim_names: dict[str, str] = {}
    for node in program.graph.nodes:
        for dim in getattr(node.meta.get("val"), "shape", ()) if node.op == "placeholder" else ():
            env = getattr(getattr(dim, "node", None), "shape_env", None)
            debug_names = getattr(env, "source_name_to_debug_name", {})
            sources = getattr(env, "var_to_sources", {})
            for symbol, places in sources.items():
                named = [debug_names[_text(p)] for p in places if _text(p) in debug_names]
                dim_names.update({str(symbol): n for n in named if str(symbol) not in dim_names})
    return dim_names


def _text(source: Any) -> str:
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def _rename_dims(proto: onnx.ModelProto, names: Mapping[str, str]) -> None:
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                words = re.sub(r"\w+", lambda m: names.get(m[0], m[0]), dim.dim_param)
                dim.dim_param = symbol_name(words, "dim")


def _ranges(program: Any, names: Mapping[str, str]) -> dict[str, tuple[int, int | None]]:
    """Return the range of each dynamic dim for which PyTorch has proved the program."""
    ranges: dict[str, tuple[int, int | None]] = {}
    for symbol, values in program.range_constraints.items():
        low, high = (_limit(v) for v in (values.lower, values.upper))
        ranges[symbol_name(names.get(str(symbol), str(symbol)), "dim")] = (low or 0, high)
    return ranges


def _limit(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):  # PyTorch's infinities, symbols
        return None
    return number if abs(number) < UNBOUNDED else None


def _narrow_bounds(
    ranges: Mapping[str, tuple[int, int | None]], bounds: Bounds
) -> dict[str, tuple[int, int | None]]:
    """Return the requested bounds; raise BoundError outside of the exported ranges."""
    limits: dict[str, tuple[int, int | None]] = dict(ranges)
    for name, requested in bounds.items():
        low, high = (requested, requested) if isinstance(requested, int) else requested
        least, most = ranges.get(name, (0, None))
        if low < least or (most is not None and (high is None or high > most)):
            raise BoundError(
                f"{name!r} was exported for {least} .. {most or 'any'} and is bounded to "
                f"{low} .. {high or 'any'}",
                where=name,
                expected=f"{least} .. {most or 'any'}",
                try_=f"torch.export.Dim({name!r}, min=…, max=…)",
            )
        limits[name] = (low, high)
    return limits


# Loops as ONNX nodes.


Translation = Callable[..., Any]


def _translations() -> dict[Any, Translation]:
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
