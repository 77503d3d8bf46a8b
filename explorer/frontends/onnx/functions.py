"""Bodies of function calls: functions of the model, or those that define ONNX operators.

ONNX's schema of an operator holds its body, the number of its inputs and outputs, and its
attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.ops import RECORDS

OUR_DOMAINS = ("", "ai.onnx")
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "Constant"})
SEQUENCES = frozenset({"SequenceAt", "SequenceEmpty", "SequenceInsert", "SequenceLength"})
FunctionKey = tuple[str, str, str]  # domain, name and overload


def plain_domain(domain: str) -> str:
    """Return "" for both names of ONNX's own domain."""
    return "" if domain in OUR_DOMAINS else domain


@dataclass(frozen=True, slots=True)
class Body:
    """The nodes of a function with a call's attributes substituted."""

    key: FunctionKey
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[onnx.NodeProto, ...]
    opsets: Mapping[str, int]


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each imported operator set."""
    return {plain_domain(o.domain): int(o.version) for o in imports}


def key_of(node: onnx.NodeProto) -> FunctionKey:
    """Return the key of the function that a node calls."""
    return plain_domain(node.domain), node.op_type, node.overload


def local_functions(model: onnx.ModelProto) -> dict[FunctionKey, onnx.FunctionProto]:
    """Return the functions that a model defines; raise BadModelFile if two have the same key."""
    functions: dict[FunctionKey, onnx.FunctionProto] = {}
    for function in model.functions:
        key = plain_domain(function.domain), function.name, function.overload
        if key in functions:
            raise BadModelFile(f"defines the function {function.name!r} twice")
        functions[key] = function
    return functions


def body_of(
    function: onnx.FunctionProto,
    node: onnx.NodeProto,
    defaults: Mapping[str, onnx.AttributeProto] = MappingProxyType({}),
) -> Body:
    """Return a function's body for a call; attributes are substituted, omitted inputs empty."""
    arguments = {a.name: a for a in node.attribute}
    attributes: dict[str, onnx.AttributeProto] = dict(defaults)
    attributes |= {a.name: a for a in function.attribute_proto}
    attributes |= {n: arguments[n] for n in function.attribute if n in arguments}
    attributes |= {
        a.name: arguments[a.name] for a in function.attribute_proto if a.name in arguments
    }
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
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for i, name in enumerate(copy.input):
        if name in missing:
            copy.input[i] = ""
    del copy.attribute[:]
    for attribute in node.attribute:
        value = attribute
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in attributes:
                continue  # omitted at the call, so omitted here
            value = attributes[attribute.ref_attr_name]
        target = copy.attribute.add()
        target.CopyFrom(value)
        target.name = attribute.name
        if target.type == onnx.AttributeProto.GRAPH:
            inner = [_instance(n, attributes, missing) for n in target.g.node]
            del target.g.node[:]
            target.g.node.extend(inner)
    return copy


# ONNX's own functions.


InputTypes = Callable[[], Sequence[onnx.TypeProto | None]]  # called only if a body depends on them


def schema_body(node: onnx.NodeProto, opset: int, input_types: InputTypes) -> Body | None:
    """Return the body by which ONNX defines an operator, for arguments of these types.

    It is None unless every operator of the body has a kernel rule. `opset` is the version of the
    operator's own domain.
    """
    schema = _schema_of(node.op_type, opset, plain_domain(node.domain))
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
        serialized = [(t or onnx.TypeProto()).SerializeToString() for t in types]
        version = _version(versions, opset, node)
        try:
            function_bytes = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), serialized
            )
        except Exception:  # the builder raises exceptions of any type
            return None
    elif schema.has_function:
        function_bytes = schema.get_function_with_opset_version(
            _version(schema.function_opset_versions, opset, node)
        )
    else:
        return None
    if not function_bytes:
        return None
    function.ParseFromString(function_bytes)
    return function


def _version(versions: Sequence[int], opset: int, node: onnx.NodeProto) -> int:
    """Return the newest version of a body that the model's operator set admits."""
    if plain_domain(node.domain):
        return max(versions)
    return max((v for v in versions if v <= opset), default=min(versions))


def _has_rules(nodes: Iterable[onnx.NodeProto], depth: int) -> bool:
    """Return True if every operator has a kernel rule, or a body of operators that have."""
    return all(_has_rule(n, depth) for n in nodes)


def _has_rule(node: onnx.NodeProto, depth: int) -> bool:
    if node.op_type in RECORDS or node.op_type in CONTROL_FLOW | SEQUENCES:
        return True
    schema = _schema_of(node.op_type, onnx.defs.onnx_opset_version(), plain_domain(node.domain))
    if schema is None or depth > 4:
        return False
    if schema.has_function:
        function = schema.function_body
        return function is not None and _has_rules(function.node, depth + 1)
    return bool(schema.has_context_dependent_function)


# Schemas.


@lru_cache(maxsize=1024)
def _schema_of(op: str, opset: int, domain: str = "") -> Any:
    """Return ONNX's schema of an operator in a version of its domain; None if there is none."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a name that is not text
        return None


def check_node(node: onnx.NodeProto, name: str, opset: int, domain: str = "") -> None:
    """Raise BadModelFile unless the node fits its schema, UnsupportedOperator if it has none."""
    schema = _schema_of(node.op_type, opset, domain)
    if schema is None:
        of = f"the domain {domain!r} of ONNX" if domain else "ONNX"
        raise UnsupportedOperator(
            f"{node.op_type} at {name!r} is not an operator of version {opset} of {of}", where=name
        )
    where = f"{node.op_type} at {name!r}"
    inputs, outputs = len(node.input), len(node.output)
    if not schema.min_input <= inputs <= schema.max_input:
        raise BadModelFile(f"gives {where} {inputs} inputs")
    if not schema.min_output <= outputs <= schema.max_output:
        raise BadModelFile(f"reads {outputs} outputs of {where}")
    for formal, value in zip(schema.inputs, node.input, strict=False):
        if not value and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise BadModelFile(f"leaves out the input {formal.name!r} of {where}")
    _check_attributes(node, schema, where)


def _check_attributes(node: onnx.NodeProto, schema: Any, where: str) -> None:
    names = set()
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is None or int(formal.type) != attribute.type or attribute.ref_attr_name:
            raise BadModelFile(
                f"gives {where} an attribute {attribute.name!r} that ONNX does not define"
            )
        names.add(attribute.name)
    for name, formal in schema.attributes.items():
        if formal.required and name not in names:
            raise BadModelFile(f"omits the attribute {name!r} of {where}")
