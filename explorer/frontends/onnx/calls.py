"""Calls of functions: the nodes of the body are bound where the call stands."""

from __future__ import annotations

import onnx

from explorer.errors import BadModelFile
from explorer.frontends.onnx.functions import body_of, key_of, schema_body
from explorer.frontends.onnx.scope import Call, Scope


def import_local(scope: Scope, proto: onnx.NodeProto, function: onnx.FunctionProto) -> None:
    """A call of one of the model's functions; its nodes are source operators of their own."""
    if key_of(proto) in scope.called:
        raise BadModelFile(f"calls the function {proto.op_type!r} from itself")
    name = scope.origin or scope.importer.node_name(proto, scope.prefix)
    call = Call(scope, proto, body_of(function, proto), scope.importer.label(f"{name}.call"))
    call.prefix = f"{name}/"
    _inline(scope, call, proto)
    if not scope.origin:
        scope.importer.drop(name, "its function's nodes stand for it")


def expand(scope: Scope, proto: onnx.NodeProto, opset: int, name: str, label: str) -> bool:
    """Bind the nodes that ONNX defines an operator by, if it does and all have kernel rules."""
    body = schema_body(
        proto, opset, lambda: [scope.types.get(i) if i else None for i in proto.input]
    )
    if body is None or body.key in scope.called:
        return False
    call = Call(scope, proto, body, label)
    call.origin = name
    _inline(scope, call, proto)
    return True


def _inline(scope: Scope, call: Call, proto: onnx.NodeProto) -> None:
    body = call.content
    scope.importer.inlined(len(body.nodes))
    for node in body.nodes:
        scope.importer.bind_node(call, node)
    for formal, actual in zip(body.outputs, proto.output, strict=False):
        if actual in scope.values and actual:
            raise BadModelFile(f"makes the value {actual!r} twice")
        if actual:
            scope.values[actual] = call.find(formal)
