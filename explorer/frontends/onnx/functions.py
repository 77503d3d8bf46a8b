"""What a call of a function stands for: the nodes of a function of the model, or of ONNX's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import onnx

from explorer.errors import BadModelFile
from explorer.frontends.onnx.schema import schema_of
from explorer.ops import RECORDS

OUR_DOMAINS = ("", "ai.onnx")
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "Constant"})
SEQUENCES = frozenset({"SequenceAt", "SequenceEmpty", "SequenceInsert", "SequenceLength"})
Key = tuple[str, str, str]  # domain, name and overload


def plain_domain(domain: str) -> str:
    """ONNX's own domain has two names."""
    return "" if domain in OUR_DOMAINS else domain


@dataclass(frozen=True, slots=True)
class Body:
    """The nodes that stand for a call, with the call's attributes put in."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[onnx.NodeProto, ...]
    opsets: Mapping[str, int]


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """The version of each operator set that is named."""
    return {plain_domain(o.domain): int(o.version) for o in imports}


def key_of(node: onnx.NodeProto) -> Key:
    """What a node calls."""
    return plain_domain(node.domain), node.op_type, node.overload


def local_functions(model: onnx.ModelProto) -> dict[Key, onnx.FunctionProto]:
    """The functions that a model defines; BadModelFile where two have one name."""
    found: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        key = plain_domain(function.domain), function.name, function.overload
        if key in found:
            raise BadModelFile(f"defines the function {function.name!r} twice")
        found[key] = function
    return found


def body_of(
    function: onnx.FunctionProto,
    node: onnx.NodeProto,
    defaults: Mapping[str, onnx.AttributeProto] = MappingProxyType({}),
) -> Body:
    """A call of a function: attributes are put in, inputs left out stay left out."""
    given = {a.name: a for a in node.attribute}
    attributes: dict[str, onnx.AttributeProto] = dict(defaults)
    attributes |= {a.name: a for a in function.attribute_proto}
    attributes |= {n: given[n] for n in function.attribute if n in given}
    attributes |= {a.name: given[a.name] for a in function.attribute_proto if a.name in given}
    missing = {f for i, f in enumerate(function.input) if i >= len(node.input) or not node.input[i]}
    if len(node.input) > len(function.input) or len(node.output) > len(function.output):
        raise BadModelFile(f"calls the function {function.name!r} with too many values")
    return Body(
        key_of(node),
        tuple(function.input),
        tuple(function.output),
        tuple(_instance(n, attributes, missing) for n in function.node),
        opsets_of(function.opset_import),
    )


def _instance(
    node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], missing: set[str]
) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    for i, name in enumerate(made.input):
        if name in missing:
            made.input[i] = ""
    del made.attribute[:]
    for attribute in node.attribute:
        found = attribute
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in attributes:
                continue  # left out at the call, so left out here
            found = attributes[attribute.ref_attr_name]
        put = made.attribute.add()
        put.CopyFrom(found)
        put.name = attribute.name
        if put.type == onnx.AttributeProto.GRAPH:
            inner = [_instance(n, attributes, missing) for n in put.g.node]
            del put.g.node[:]
            put.g.node.extend(inner)
    return made


# ONNX's own functions.


InputTypes = Callable[[], Sequence[onnx.TypeProto | None]]  # asked where a body depends on it


def schema_body(node: onnx.NodeProto, opset: int, input_types: InputTypes) -> Body | None:
    """The body that ONNX's schema gives an operator for arguments of these types, if every operator
    of it has a kernel rule; `opset` is the version of the operator's own domain.
    """
    schema = schema_of(node.op_type, opset, plain_domain(node.domain))
    if schema is None:
        return None
    function = _function(schema, node, opset, input_types)
    if function is None:
        return None
    if not _has_rules(function.node, 0):
        return None
    values = ((n, a.default_value) for n, a in schema.attributes.items())
    return body_of(function, node, {n: v for n, v in values if v.name})


def _function(
    schema: Any, node: onnx.NodeProto, opset: int, input_types: InputTypes
) -> onnx.FunctionProto | None:
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        versions, types = schema.context_dependent_function_opset_versions, input_types()
        if any(t is None for t, name in zip(types, node.input, strict=True) if name):
            return None
        given = [(t or onnx.TypeProto()).SerializeToString() for t in types]
        version = _version(versions, opset, node)
        try:
            made = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), given
            )
        except Exception:  # the builder's own refusals have no common type
            return None
    elif schema.has_function:
        made = schema.get_function_with_opset_version(
            _version(schema.function_opset_versions, opset, node)
        )
    else:
        return None
    if not made:
        return None
    function.ParseFromString(made)
    return function


def _version(versions: Sequence[int], opset: int, node: onnx.NodeProto) -> int:
    """The newest version of a body that the model's operator set may use."""
    if plain_domain(node.domain):
        return max(versions)
    return max((v for v in versions if v <= opset), default=min(versions))


def _has_rules(nodes: Iterable[onnx.NodeProto], depth: int) -> bool:
    """Whether operators have kernel rules, or bodies of operators that have."""
    return all(_has_rule(n, depth) for n in nodes)


def _has_rule(node: onnx.NodeProto, depth: int) -> bool:
    if node.op_type in RECORDS or node.op_type in CONTROL_FLOW | SEQUENCES:
        return True
    schema = schema_of(node.op_type, onnx.defs.onnx_opset_version(), plain_domain(node.domain))
    if schema is None or depth > 4:
        return False
    if schema.has_function:
        function = schema.function_body
        return function is not None and _has_rules(function.node, depth + 1)
    return bool(schema.has_context_dependent_function)
