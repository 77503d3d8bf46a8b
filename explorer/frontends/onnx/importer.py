"""Import of an ONNX file as a program of graph operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.files.onnx_file import OnnxFile, read_onnx
from explorer.frontends.files.tensors import declared_type, element_type
from explorer.frontends.model import Model
from explorer.frontends.onnx.functions import opsets_of
from explorer.frontends.onnx.graph import import_node
from explorer.frontends.onnx.scope import DimKey, Importer, Scope, import_graph
from explorer.frontends.symbols import UNNAMED, Bounds, identifiers, symbol_environment
from explorer.ir.calls import Var
from explorer.ir.program import Constant, Function, Program
from explorer.ir.shapes.dims import Dim, symbol
from explorer.ir.types import Annotation, Object, Tensor

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
    importer = Importer(file.model, constants, import_node, outer)
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
