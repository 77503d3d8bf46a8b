"""A torch.export.ExportedProgram: its operators one by one, or as PyTorch's own exporter writes
them as ONNX where it has an operator that is not known.

Nothing is written to a file: weights go from PyTorch's tensors into the program's constants.
`torch.cond`, and PyTorch's while_loop, scan and map, become loops and branches of the program, with
the tensors that their bodies see around them.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeGuard

import numpy as np
import onnx

from explorer.errors import BoundError, UnsupportedOperator
from explorer.frontends.aten.words import changed_input, first_line
from explorer.frontends.files.onnx_file import OnnxFile
from explorer.frontends.model import Model
from explorer.frontends.onnx.importer import from_file
from explorer.frontends.symbols import Bounds, symbol_name
from explorer.frontends.torch_bodies import prepared
from explorer.frontends.torch_loops import translations
from explorer.ir.text.program_text import print_program

OPSET = 20  # what PyTorch's exporter is written for
Ranges = Mapping[str, "tuple[int, int | None]"]
UNBOUNDED = 1 << 60  # from here on PyTorch means that there is no bound


def is_exported(source: Any) -> TypeGuard[Any]:
    """Whether this is what `torch.export.export` gives."""
    kind = type(source)
    return kind.__module__.startswith("torch.") and kind.__name__ == "ExportedProgram"


def load_exported(program: Any, bounds: Bounds | None = None, *, folds: bool = True) -> Model:
    """The model of an ExportedProgram: its dynamic dims keep their names and their ranges, which
    `bounds` may only narrow. `folds`: PyTorch's exporter folds weights, such as those of a norm
    into a convolution's; else each constant is the parameter of its name.

    Raises UnsupportedOperator for an operator that neither is known here nor has ONNX, for one that
    computes something else here than in PyTorch, and where ONNX cannot be told what a loop or
    branch does.
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
    """PyTorch's operators one by one."""
    # imported here because other models need none of it
    from explorer.frontends.aten.eager import check_program
    from explorer.frontends.aten.importer import functional, import_program, symbols_of

    name = _name(program)
    used = set(symbols_of(program, names))
    limits = _narrowed({n: r for n, r in ranges.items() if n in used}, bounds)
    with _quietly():
        graph = functional(program)
    found, state = import_program(graph, names, limits, name, trains=trains)
    check_program(graph, found, {n: s.first for n, s in state.items()})
    head = print_program(replace(found, constants={})).encode()
    return Model(name, f"torch.export:{name}", found, head, state=state)


def _by_onnx(
    program: Any, names: Mapping[str, str], ranges: Ranges, bounds: Bounds, folds: bool
) -> Model:
    """The program as PyTorch's exporter writes it in ONNX."""
    from explorer.frontends.aten.eager import check_written

    held = {s.arg.name: s.target for s in program.graph_signature.input_specs}
    changed = next(filter(None, map(changed_input, program.graph.nodes)), "")
    if folds and held.get(changed):
        raise UnsupportedOperator(
            f"the buffer {held[changed]!r} is changed, which no program in ONNX can keep",
            where=held[changed],
            try_="the buffer as an input and an output of the module",
        )
    proto, weights = _as_onnx(program, folds)
    _rename_dims(proto, names)
    head = proto.SerializeToString()
    known = {d.dim_param for i in proto.graph.input for d in i.type.tensor_type.shape.dim}
    limits = _narrowed({n: r for n, r in ranges.items() if n in known}, bounds)
    name = _name(program)
    found = from_file(OnnxFile(proto, weights, head), name, f"torch.export:{name}", limits)
    check_written(program, found.program)
    return found


def _name(program: Any) -> str:
    """The class of the module that was exported."""
    calls = getattr(program, "module_call_graph", None) or []
    kinds = [m for n in program.graph.nodes for m in n.meta.get("nn_module_stack", {}).values()]
    outermost = next((kind for path, kind in kinds if path == ""), None) if calls else None
    text = outermost if isinstance(outermost, str) else getattr(outermost, "__name__", "")
    return text.rpartition(".")[2] or "exported"


# ONNX.


def _as_onnx(program: Any, folds: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The graph without its weights, and the weights."""
    try:
        torch, onnx_ir, _ = map(import_module, ("torch", "onnx_ir", "onnxscript"))
    except ImportError as error:
        raise UnsupportedOperator(
            f"PyTorch writes ONNX with the package {error.name!r}, which is not installed",
            where=error.name,
            try_="pip install 'ironworks[peers]'",
        ) from error
    with _quietly():
        plain = prepared(program)
    try:
        with _quietly(), torch.no_grad():  # a loop of many values has no derivative in PyTorch 2.13
            written = torch.onnx.export(
                plain,
                dynamo=True,
                opset_version=OPSET,
                verbose=False,
                optimize=folds,
                custom_translation_table=translations(),
            )
    except Exception as error:  # its exporter raises what its parts raise
        raise UnsupportedOperator(
            f"PyTorch's exporter has no ONNX for this program: {_first_reason(error)}",
            where=_name(program),
            try_="torch.onnx.export(program, dynamo=True, report=True) tells more",
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
    """The values as they are now: PyTorch may go on training."""
    return np.array(tensor.numpy(), copy=True, order="C").reshape(tuple(tensor.shape))


def _first_reason(error: BaseException) -> str:
    """The sentence at the root of an error, without the exporter's advice."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return first_line(root)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without notes on packages that it would like to have, and on what it left as it is."""
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
    """PyTorch's symbols -> the names that `torch.export.Dim` gave them, if it still knows."""
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        for dim in getattr(node.meta.get("val"), "shape", ()) if node.op == "placeholder" else ():
            env = getattr(getattr(dim, "node", None), "shape_env", None)
            given = getattr(env, "source_name_to_debug_name", {})
            sources = getattr(env, "var_to_sources", {})
            for symbol, places in sources.items():
                named = [given[_text(p)] for p in places if _text(p) in given]
                found.update({str(symbol): n for n in named if str(symbol) not in found})
    return found


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
    """The range of each dynamic dim that PyTorch has proved the program for."""
    found: dict[str, tuple[int, int | None]] = {}
    for symbol, values in program.range_constraints.items():
        low, high = (_limit(v) for v in (values.lower, values.upper))
        found[symbol_name(names.get(str(symbol), str(symbol)), "dim")] = (low or 0, high)
    return found


def _limit(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):  # PyTorch's infinities, symbols
        return None
    return number if abs(number) < UNBOUNDED else None


def _narrowed(
    ranges: Mapping[str, tuple[int, int | None]], bounds: Bounds
) -> dict[str, tuple[int, int | None]]:
    """The bounds that are asked for, within those that the program was exported for."""
    found: dict[str, tuple[int, int | None]] = dict(ranges)
    for name, wanted in bounds.items():
        low, high = (wanted, wanted) if isinstance(wanted, int) else wanted
        least, most = ranges.get(name, (0, None))
        if low < least or (most is not None and (high is None or high > most)):
            raise BoundError(
                f"{name!r} was exported for {least} .. {most or 'any'} and is bounded to "
                f"{low} .. {high or 'any'}",
                where=name,
                expected=f"{least} .. {most or 'any'}",
                try_=f"torch.export.Dim({name!r}, min=…, max=…)",
            )
        found[name] = (low, high)
    return found
