"""Import of an ONNX file as a program of graph operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.model import UNNAMED, Bounds, Model, identifiers, symbol_environment
from explorer.frontends.onnx.functions import check_node, key_of, opsets_of, plain_domain
from explorer.frontends.onnx.onnx_file import OnnxFile, read_onnx
from explorer.frontends.onnx.operator_nodes import (
    OperatorNode,
    attributes,
    constant_value,
    fold_constant_of_shape,
    make_constant,
    to_latest_version,
)
from explorer.frontends.onnx.scope import (
    DimKey,
    Importer,
    Scope,
    add_binding,
    import_graph,
    import_local,
    inline_schema_body,
)
from explorer.frontends.onnx.tensors import declared_type, element_type
from explorer.ir.calls import OpCall, Var
from explorer.ir.dims import Dim, symbol
from explorer.ir.program import Constant, Function, Program
from explorer.ir.types import Annotation, Object, Tensor
from explorer.ops import RECORDS
from explorer.ops.user_operators import is_user_operator

FIRST_OPSET = 7


def load(path: str | Path, bounds: Bounds | None = None) -> Model:
    """Read an ONNX file.

    `bounds` limits its symbolic dims: `{"batch": (1, 64)}`.

    Raises:
        BadModelFile, UnsupportedOperator, BoundError: the file cannot be imported.
    """
    path = Path(path)
    file = read_onnx(path)
    try:
        return from_file(file, path.stem, str(path), bounds)
    except BadModelFile as error:
        raise BadModelFile(f"{path.name} {error.sentence}", where=path) from None


def from_file(file: OnnxFile, name: str, path: str, bounds: Bounds | None = None) -> Model:
    """Return the model of a parsed file; `path` is its origin."""
    return Model(name, path, _program(file, name, bounds), file.head)


def _program(file: OnnxFile, name: str, bounds: Bounds | None) -> Program:
    graph = file.model.graph
    constants = {n: Constant(a) for n, a in file.initializers.items()}
    outer = frozenset(o for n in graph.node for o in n.output)
    importer = Importer(file.model, constants, _import_node, outer)
    scope = Scope(importer, "main", _opsets(file.model))
    for constant_name, constant in importer.constants.items():
        scope.values[constant_name] = _constant_var(constant_name, constant)
    inputs = [i for i in graph.input if i.name not in file.initializers]
    importer.dims = _dims(inputs)
    params = tuple(scope.define(i.name, _input_type(i, importer.dims)) for i in inputs)
    types = (p.type for p in params if isinstance(p.type, Tensor))
    env = symbol_environment((t.shape for t in types if t.shape is not None), bounds)
    outputs = import_graph(scope, graph)
    if not outputs:
        raise BadModelFile("has no outputs")
    names = tuple(o.name for o in graph.output)
    main = Function("main", params, tuple(scope.body), outputs, names)
    return Program(
        (main, *importer.functions),
        importer.constants,
        env,
        tuple(importer.sources),
        tuple(importer.dropped),
        name=name,
    )


def _constant_var(name: str, constant: Constant) -> Var:
    return Var(name, constant.type)


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Return the version of each operator set; refuse unsupported ones of ONNX's own."""
    versions = opsets_of(model.opset_import)
    version = versions.get("")
    if version is not None and not FIRST_OPSET <= version <= onnx.defs.onnx_opset_version():
        raise UnsupportedOperator(
            f"the model is of version {version} of the operator set; versions "
            f"{FIRST_OPSET} to {onnx.defs.onnx_opset_version()} are supported"
        )
    return versions


def _dims(inputs: Iterable[onnx.ValueInfoProto]) -> Mapping[DimKey, Dim]:
    """Return a symbol for each dim name of the inputs, and for each unnamed symbolic dim."""
    texts: dict[DimKey, str] = {}
    for i in inputs:
        for axis, dim in enumerate(i.type.tensor_type.shape.dim):
            own = dim.dim_param in UNNAMED
            key: DimKey = (i.name, axis) if own else dim.dim_param
            texts[key] = f"{i.name}_{axis}" if own else dim.dim_param
    return {key: symbol(name) for key, name in identifiers(texts).items()}


def _input_type(value: onnx.ValueInfoProto, dims: Mapping[DimKey, Dim]) -> Annotation:
    """Return an input's declared type; sequences and optional values are host objects."""
    kind = value.type
    if kind.HasField("sparse_tensor_type") or kind.HasField("map_type"):
        raise UnsupportedOperator(
            f"the input {value.name!r} is a sparse tensor or a map, which are not supported",
            where=value.name,
        )
    if not kind.HasField("tensor_type"):
        return Object()
    element_type(kind.tensor_type.elem_type, value.name)  # raises if it is missing
    return declared_type(
        value, lambda axis, text: dims[(value.name, axis) if text in UNNAMED else text]
    )


# Nodes.


MICROSOFT = ("com.microsoft", frozenset({"MatMulNBits", "MatMulBnb4"}))  # of onnxruntime
LIBRARY_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def _import_node(scope: Scope, proto: onnx.NodeProto) -> None:
    """Bind one node, or make its result a constant."""
    importer, key = scope.importer, key_of(proto)
    if key in importer.local:
        import_local(scope, proto, importer.local[key])
        return
    if scope.origin:
        name, label = scope.origin, importer.label(f"{scope.origin}.{proto.op_type}")
    else:
        name = label = importer.node_name(proto, scope.prefix)
    if is_user_operator(proto.op_type, key[0]):
        _bind(scope, OperatorNode(*_head(proto, name), attributes(proto, name), 1), proto.domain)
        return
    if key[0] == MICROSOFT[0] and proto.op_type in MICROSOFT[1]:
        _bind(scope, OperatorNode(*_head(proto, name), attributes(proto, name), 1), "")
        return
    opset = _version(scope, proto, name)
    check_node(proto, name, opset, key[0])
    match proto.op_type:
        case "If" | "Loop" | "Scan":
            from explorer.frontends.onnx import control_flow  # most files have none

            imports = {
                "If": control_flow.import_if,
                "Loop": control_flow.import_loop,
                "Scan": control_flow.import_scan,
            }
            imports[proto.op_type](scope, proto, name, label)
        case "Constant":
            make_constant(scope, proto.output[0], constant_value(proto, name))
            importer.drop(name, "became a constant")
        case _ if proto.op_type not in RECORDS and inline_schema_body(
            scope, proto, opset, name, label
        ):
            pass
        case _:
            _import_operator(scope, proto, opset, name)


def _version(scope: Scope, proto: onnx.NodeProto, name: str) -> int:
    """Return the version of the operator's domain that the model or function imports."""
    domain = plain_domain(proto.domain)
    if domain and domain not in LIBRARY_DOMAINS:
        raise UnsupportedOperator(
            f"{proto.op_type} at {name!r} is of the operator domain {proto.domain!r}; "
            "ONNX's own operators, the model's functions and operators of your own are supported",
            where=name,
            try_=f"explorer.operator(record, domain={proto.domain!r}), in a file for --plugin",
        )
    if domain not in scope.opsets:
        raise BadModelFile(f"names no version of the operator domain {proto.domain!r} of {name!r}")
    return scope.opsets[domain]


def _import_operator(scope: Scope, proto: onnx.NodeProto, opset: int, name: str) -> None:
    attrs = attributes(proto, name)
    if plain_domain(proto.domain) and proto.op_type not in RECORDS:
        attrs["domain"] = proto.domain
    node = OperatorNode(*_head(proto, name), attrs, opset)
    if not fold_constant_of_shape(scope, node):
        _bind(scope, to_latest_version(node), proto.domain)


def _head(proto: onnx.NodeProto, name: str) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    return proto.op_type, name, tuple(proto.input), tuple(proto.output)


def _bind(scope: Scope, node: OperatorNode, domain: str = "") -> None:
    record = RECORDS.get(node.op)
    attrs = dict(node.attrs)
    if record is None:
        attrs["opset"] = node.opset
    elif node.opset < record.first and not plain_domain(domain):
        raise UnsupportedOperator(
            f"{node.op} at {node.name!r} is of version {node.opset} of the operator set; "
            f"it is supported from version {record.first} on",
            where=node.name,
        )
    args = [scope.find(i) if i else None for i in node.inputs]
    while args and args[-1] is None:
        args.pop()
    add_binding(scope, node.outputs, OpCall(node.op, tuple(args), tuple(attrs.items())), node.name)
