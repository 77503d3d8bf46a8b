"""If, Loop and Scan: subgraphs become functions, and captured values parameters.

A Scan has carried values, sliced inputs and stacked outputs; it becomes a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.onnx.scope import Scope, add_binding, import_graph
from explorer.frontends.onnx.tensors import declared_type
from explorer.ir.calls import Branch, Loop, OpCall, Var
from explorer.ir.program import Binding, Function
from explorer.ir.types import Tensor


def _graph_attribute(proto: onnx.NodeProto, attribute_name: str, name: str) -> onnx.GraphProto:
    for attribute in proto.attribute:
        if attribute.name == attribute_name and attribute.type == onnx.AttributeProto.GRAPH:
            graph: onnx.GraphProto = attribute.g
            return graph
    raise BadModelFile(f"holds {proto.op_type} at {name!r} without its {attribute_name}")


def import_if(scope: Scope, proto: onnx.NodeProto, name: str, label: str) -> None:
    """Import an If node."""
    cond = scope.find(proto.input[0])
    inner = [
        _inner(scope, _graph_attribute(proto, f"{arm}_branch", name), f"{label}.{arm}")
        for arm in ("then", "else")
    ]
    names = _captures(s for s, _ in inner)
    for arm, outputs in inner:
        if len(outputs) != len(proto.output):
            raise BadModelFile(
                f"holds If at {name!r} whose branches have different numbers of outputs"
            )
        _function(arm, (), names, outputs)
    args = tuple(scope.find(n) for n in names)
    then, orelse = (s.name for s, _ in inner)
    add_binding(scope, proto.output, Branch(cond, then, orelse, args), name)


def import_loop(scope: Scope, proto: onnx.NodeProto, name: str, label: str) -> None:
    """Import a Loop node."""
    body = _graph_attribute(proto, "body", name)
    state = tuple(scope.find(i) for i in proto.input[2:])
    trip, cond = (scope.find(i) if i else None for i in (*proto.input, "", "")[:2])
    if len(body.input) != 2 + len(state) or len(body.output) < 1 + len(state):
        raise BadModelFile(
            f"holds Loop at {name!r} whose body does not fit its {len(state)} values"
        )
    if len(proto.output) > len(body.output) - 1:
        raise BadModelFile(
            f"reads {len(proto.output)} outputs of Loop at {name!r}, which has fewer"
        )
    inner, outputs = _inner(scope, body, f"{label}.body")
    names = _captures([inner])
    params = tuple(inner.values[i.name] for i in body.input)
    _function(inner, params, names, outputs)
    args = tuple(scope.find(n) for n in names)
    scans = len(outputs) - 1 - len(state)
    output_names = (*proto.output, *("",) * (len(outputs) - 1 - len(proto.output)))
    rows = _declared(scope, body.output[1 + len(state) :])
    add_binding(scope, output_names, Loop(inner.name, trip, cond, state, args, scans, rows), name)


def import_scan(scope: Scope, proto: onnx.NodeProto, name: str, label: str) -> None:
    """Import a Scan as a loop over the scanned inputs' extent; each trip takes a slice."""
    if scope.opsets[""] < 9:
        _scan_batches(scope, proto, name, label)
    else:
        _scan(scope, proto, name, label)


def _scan_batches(scope: Scope, proto: onnx.NodeProto, name: str, label: str) -> None:
    """Import a Scan before version 9: a loop over the batch dim, which scans each example."""
    if proto.input[0]:
        raise UnsupportedOperator(
            f"Scan at {name!r} gives each example of its batch a length of its own, as versions "
            "before 9 could",
            where=name,
        )
    importer, origin = scope.importer, frozenset((name,))
    trip = _extent(scope, scope.find(proto.input[1]), 0, name, label)
    inner = Scope(importer, f"{label}.body", scope.opsets, scope, scope.depth + 1)
    counters = importer.value(f"{label}.example"), importer.value(f"{label}.going")
    examples = [f"{label}.{at}.one" for at in range(len(proto.input) - 1)]
    for example, batch in zip(examples, proto.input[1:], strict=True):
        part = OpCall("Gather", (inner.find(batch), counters[0]), (("axis", 0),))
        inner.body.append(Binding((inner.define(example),), part, origin))
    scan = _without_batch(
        proto, examples, [f"{label}.{at}.made" for at in range(len(proto.output))]
    )
    _scan(inner, scan, name, f"{label}.scan")
    outputs = (counters[1], *(inner.find(n) for n in scan.output))
    names = _captures([inner])
    _function(inner, counters, names, outputs)
    args = tuple(scope.find(n) for n in names)
    form = ScanForm(scan, _graph_attribute(scan, "body", name), name)
    last = _declared(scope, form.body.output[: form.states])
    rows = (
        *last,
        *(_stacked_type(r) for r in _declared(scope, form.body.output[form.states :])),
    )
    loop = Loop(inner.name, trip, None, (), args, len(outputs) - 1, rows[: len(outputs) - 1])
    add_binding(scope, proto.output, loop, name)


def _stacked_type(row: Tensor) -> Tensor:
    """Return the type of stacked rows of unknown number."""
    return row if row.shape is None else Tensor((0, *row.dims), row.dtype)


def _scan(scope: Scope, proto: onnx.NodeProto, name: str, label: str) -> None:
    scan = ScanForm(proto, _graph_attribute(proto, "body", name), name)
    state = tuple(scope.find(i) for i in proto.input[: scan.states])
    scanned = tuple(scope.find(i) for i in proto.input[scan.states :])
    trip = _extent(scope, scanned[0], scan.input_axes[0], name, label)
    inner = Scope(scope.importer, f"{label}.body", scope.opsets, scope, scope.depth + 1)
    counters = inner.importer.value(f"{label}.step"), inner.importer.value(f"{label}.going")
    params = tuple(inner.define(i.name) for i in scan.body.input[: scan.states])
    wholes = tuple(inner.importer.value(f"{label}.{v.name}") for v in scanned)
    for i, formal in enumerate(scan.body.input[scan.states :]):
        step = counters[0]
        if scan.input_backwards[i]:
            last = scope.importer.constant(f"{label}.last", np.array(-1, np.int64))
            back = inner.importer.value(f"{label}.back")
            inner.body.append(Binding((back,), OpCall("Sub", (last, step)), frozenset((name,))))
            step = back
        part = OpCall("Gather", (wholes[i], step), (("axis", scan.input_axes[i]),))
        inner.body.append(Binding((inner.define(formal.name),), part, frozenset((name,))))
    outputs = (counters[1], *import_graph(inner, scan.body))
    names = _captures([inner])
    _function(inner, (*counters, *params, *wholes), names, outputs)
    args = (*scanned, *(scope.find(n) for n in names))
    output_names = (*proto.output, *("",) * (len(outputs) - 1 - len(proto.output)))
    rows = _declared(scope, scan.body.output[scan.states :])
    loop = Loop(inner.name, trip, None, state, args, len(outputs) - 1 - scan.states, rows)
    add_binding(
        scope,
        (*output_names[: scan.states], *scan.loop_outputs(output_names[scan.states :], label)),
        loop,
        name,
    )
    for at, output in enumerate(output_names[scan.states :]):
        if output:
            _orient_output(scope, scan, at, output, name, label)


def _declared(scope: Scope, rows: Iterable[onnx.ValueInfoProto]) -> tuple[Tensor, ...]:
    """Return the declared types of a body's stacked results.

    A dim is 0 if it has neither a number nor the name of an input's dim.
    """
    dims = scope.importer.dims
    return tuple(declared_type(row, lambda axis, text: dims.get(text, 0)) for row in rows)


def _extent(scope: Scope, value: Var, axis: int, name: str, label: str) -> Var:
    """Bind the extent of a dim as a scalar."""
    importer, origin = scope.importer, frozenset((name,))
    row, extent = importer.value(f"{label}.extents"), importer.value(f"{label}.trip")
    at = importer.constant(f"{label}.axis", np.array(axis, np.int64))
    scope.body.append(Binding((row,), OpCall("Shape", (value,)), origin))
    scope.body.append(Binding((extent,), OpCall("Gather", (row, at), (("axis", 0),)), origin))
    return extent


def _orient_output(
    scope: Scope, scan: ScanForm, at: int, output: str, name: str, label: str
) -> None:
    """Bind a stacked result in the scan's output direction and axis."""
    if not scan.is_turned(at):
        return
    importer, origin = scope.importer, frozenset((name,))
    value = scope.values[scan.loop_output(at, label)]
    if scan.output_backwards[at]:
        bounds = (("starts", -1), ("ends", -(1 << 31)), ("axes", 0), ("steps", -1))
        rows = [importer.constant(f"{label}.{n}", np.array([v], np.int64)) for n, v in bounds]
        reverse = OpCall("Slice", (value, *rows))
        value = importer.value(f"{label}.forwards") if scan.moves(at) else scope.define(output)
        scope.body.append(Binding((value,), reverse, origin))
    if scan.moves(at):
        turn = OpCall("Transpose", (value,), (("perm", scan.permutation(at)),))
        scope.body.append(Binding((scope.define(output),), turn, origin))


def _inner(outer: Scope, graph: onnx.GraphProto, name: str) -> tuple[Scope, tuple[Var, ...]]:
    scope = Scope(outer.importer, name, outer.opsets, outer, outer.depth + 1)
    for value in graph.input:
        scope.define(value.name)
    return scope, import_graph(scope, graph)


def _captures(scopes: Iterable[Scope]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for s in scopes for n in s.captured))


def _function(
    scope: Scope, params: tuple[Var, ...], captures: Sequence[str], outputs: tuple[Var, ...]
) -> None:
    """Add a graph as a function; its parameters include the captures of both branches."""
    captured_params = tuple(
        scope.captured.get(n) or scope.importer.value(f"{scope.name}.{n}", inner=True)
        for n in captures
    )
    scope.importer.functions.append(
        Function(scope.name, (*params, *captured_params), tuple(scope.body), outputs)
    )


# The form of a Scan.


class ScanForm:
    """The attributes of a Scan, checked against its body and its arguments."""

    def __init__(self, node: onnx.NodeProto, body: onnx.GraphProto, name: str) -> None:
        """Read the attributes; raise BadModelFile if they do not fit the body."""
        self.name, self.body = name, body
        numbers = {a.name: _numbers(a) for a in node.attribute if a.name != "body"}
        inputs = numbers.get("num_scan_inputs", [0])[0]
        self.states = len(node.input) - inputs
        outputs = len(body.output) - self.states
        fits = len(body.input) == len(node.input) and len(node.output) <= len(body.output)
        if inputs < 1 or self.states < 0 or outputs < 0 or not fits:
            raise BadModelFile(f"holds Scan at {name!r} whose body does not fit its values")
        if not all(node.input):
            raise BadModelFile(f"leaves out an input of Scan at {name!r}")
        self.input_axes = self._each(numbers, "scan_input_axes", inputs)
        self.output_axes = self._each(numbers, "scan_output_axes", outputs)
        self.input_backwards = self._each(numbers, "scan_input_directions", inputs)
        self.output_backwards = self._each(numbers, "scan_output_directions", outputs)

    def _each(self, numbers: dict[str, list[int]], key: str, count: int) -> Sequence[int]:
        numbers_of_values = numbers.get(key) or [0] * count
        if len(numbers_of_values) != count:
            raise BadModelFile(
                f"gives Scan at {self.name!r} {len(numbers_of_values)} {key} for {count} values"
            )
        return numbers_of_values

    def moves(self, at: int) -> bool:
        """Return True if an output is stacked along another dim than the first."""
        return self.output_axes[at] != 0

    def is_turned(self, at: int) -> bool:
        """Return True if an output's axis or direction differs from that of a loop."""
        return self.moves(at) or bool(self.output_backwards[at])

    def loop_output(self, at: int, label: str) -> str:
        """Return the name of an output as stacked by the loop."""
        return f"{label}.stacked{at}"

    def loop_outputs(self, outputs: Sequence[str], label: str) -> list[str]:
        """Return the names of the loop's results."""
        return [
            self.loop_output(at, label) if output and self.is_turned(at) else output
            for at, output in enumerate(outputs)
        ]

    def permutation(self, at: int) -> tuple[int, ...]:
        """Return the permutation that moves the first dim to the output axis."""
        kind = self.body.output[self.states + at].type.tensor_type
        if not kind.HasField("shape"):
            raise UnsupportedOperator(
                f"Scan at {self.name!r} stacks values of unknown rank along an inner dim",
                where=self.name,
            )
        rank = len(kind.shape.dim) + 1
        axis = self.output_axes[at]
        if not -rank <= axis < rank:
            raise BadModelFile(f"holds Scan at {self.name!r} with the axis {axis} of {rank} dims")
        order = list(range(1, rank))
        order.insert(axis % rank, 0)
        return tuple(order)


def _without_batch(
    node: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.NodeProto:
    """Return a Scan of version 8 as one of version 9, for values without a batch dim."""
    scan = onnx.helper.make_node("Scan", inputs, outputs)
    for attribute in node.attribute:
        copy = scan.attribute.add()
        copy.CopyFrom(attribute)
        copy.name = {"directions": "scan_input_directions"}.get(attribute.name, attribute.name)
    return scan


def _numbers(attribute: onnx.AttributeProto) -> list[int]:
    """Return the numbers of a list, which may be empty, or of a single number."""
    return [attribute.i] if attribute.type == onnx.AttributeProto.INT else list(attribute.ints)
