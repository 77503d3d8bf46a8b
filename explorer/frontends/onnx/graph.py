"""Import of ONNX nodes: calls, control flow, constants, operators."""

from __future__ import annotations

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.onnx.attributes import (
    attributes,
    constant_value,
    fold_constant_of_shape,
    make_constant,
)
from explorer.frontends.onnx.calls import import_local, inline_schema_body
from explorer.frontends.onnx.control_flow import import_if, import_loop, import_scan
from explorer.frontends.onnx.functions import key_of, plain_domain
from explorer.frontends.onnx.opsets import OperatorNode, to_latest_version
from explorer.frontends.onnx.schema import check_node
from explorer.frontends.onnx.scope import Scope, add_binding
from explorer.ir.calls import OpCall
from explorer.ops import RECORDS
from explorer.ops.user_operators import is_user_operator

LIBRARY_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def import_node(scope: Scope, proto: onnx.NodeProto) -> None:
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
    opset = _version(scope, proto, name)
    check_node(proto, name, opset, key[0])
    match proto.op_type:
        case "If":
            import_if(scope, proto, name, label)
        case "Loop":
            import_loop(scope, proto, name, label)
        case "Scan":
            import_scan(scope, proto, name, label)
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
            try_=f"explorer.operator(record, domain={proto.domain!r})",
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
