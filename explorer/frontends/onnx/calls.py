"""Inlining of function calls: the body's nodes are bound at the call."""

from __future__ import annotations

import onnx

from explorer.errors import BadModelFile
from explorer.frontends.onnx.functions import body_of, key_of, schema_body
from explorer.frontends.onnx.scope import InlinedCall, Scope


def import_local(scope: Scope, proto: onnx.NodeProto, function: onnx.FunctionProto) -> None:
    """Inline a call of one of the model's functions; its nodes are source operators."""
    if key_of(proto) in scope.called:
        raise BadModelFile(f"calls the function {proto.op_type!r} from itself")
    name = scope.origin or scope.importer.node_name(proto, scope.prefix)
    call = InlinedCall(scope, proto, body_of(function, proto), scope.importer.label(f"{name}.call"))
    call.prefix = f"{name}/"
    _inline(scope, call, proto)
    if not scope.origin:
        scope.importer.drop(name, "replaced by its function's nodes")


def inline_schema_body(
    scope: Scope, proto: onnx.NodeProto, opset: int, name: str, label: str
) -> bool:
    """Inline the function by which ONNX defines an operator, if all its nodes have kernel rules."""
    body = schema_body(
        proto, opset, lambda: [scope.types.get(i) if i else None for i in proto.input]
    )
    if body is None or body.key in scope.called:
        return False
    call = InlinedCall(scope, proto, body, label)
    call.origin = name
    _inline(scope, call, proto)
    return True


def _inline(scope: Scope, call: InlinedCall, proto: onnx.NodeProto) -> None:
    body = call.content
    scope.importer.inlined(len(body.nodes))
    for node in body.nodes:
        scope.importer.bind_node(call, node)
    for formal, actual in zip(body.outputs, proto.output, strict=False):
        if actual in scope.values and actual:
            raise BadModelFile(f"defines the value {actual!r} twice")
        if actual:
            scope.values[actual] = call.find(formal)
