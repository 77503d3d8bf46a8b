"""Models from a file or the zoo with trainable weights as parameters."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadOption, MissingInput, ShapeError, UnsupportedOperator
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.frontends.onnx.save_onnx import save_onnx
from explorer.frontends.python.functions import embed_program
from explorer.frontends.python.tracing.emit import is_traced, traced
from explorer.frontends.python.tracing.frames import attributed_to_call
from explorer.frontends.torch.export import is_exported, load_exported
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Constant, Program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.relax import deduce
from explorer.transforms.simplify.substitution import bind_symbols

STATISTICS = {"BatchNormalization": (3, 4)}  # operands that are statistics of data and not trained


@dataclass(frozen=True)
class Pretrained:
    """A model as a function of parameters, nested by name, and of its inputs, in their order.

    It can be called inside a traced function; batches may be of any size that the model takes.
    """

    model: Model
    names: tuple[str, ...]

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The current weights of the model."""
        return {n: self.model.program.constants[n].array for n in self.names}

    def __call__(self, params: Mapping[str, Any], *inputs: Any) -> Any:
        """Return the model's output, a tuple if there are several.

        Raises:
            MissingInput: a weight or an input is missing.
            ShapeError: an input has a shape that the model does not take.
        """
        if not (is_traced(inputs) or is_traced(tuple(params.values()))):
            return self._evaluate(params, inputs)
        missing = [n for n in self.names if n not in params]
        wanted = self.model.program.main.params
        if missing or len(inputs) != len(wanted):
            raise MissingInput(
                f"{self.model.name} takes {len(self.names)} weights and {len(wanted)} inputs",
                where=missing[0] if missing else self.model.name,
                expected=", ".join(p.name for p in wanted),
                actual=f"{len(params)} and {len(inputs)}",
            )
        arrays = [traced(a) for a in inputs]
        program = self._program(tuple(_static_dims(g) for g in arrays))
        args = [*arrays, *(traced(params[n]) for n in self.names)]
        with attributed_to_call(self.model.name):
            results = embed_program(program, args, self.model.name)
        return results[0] if len(results) == 1 else tuple(results)

    def _evaluate(self, params: Mapping[str, Any], inputs: tuple[Any, ...]) -> Any:
        """Evaluate the model on arrays by the interpreter."""
        program = self.with_params(params).program
        names = [p.name for p in program.main.params]
        results = evaluate(program, dict(zip(names, map(np.asarray, inputs), strict=True))).values()
        return next(iter(results)) if len(results) == 1 else tuple(results)

    def _program(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        """Return the model for inputs of these shapes, with its weights as parameters."""
        program = self.model.program
        sizes: dict[str, int] = {}
        for p, shape in zip(program.main.params, shapes, strict=True):
            dims = p.type.dims if isinstance(p.type, Tensor) and p.type.is_known else ()
            for dim, n in zip(dims, shape, strict=False):
                if sizes.setdefault(str(dim), n) != n or (isinstance(dim, int) and dim != n):
                    raise ShapeError(
                        f"{self.model.name} takes {p.type} as {p.name!r}",
                        where=p.name,
                        actual=list(shape),
                    )
        symbols = {s.name for s in program.env.symbols}
        bound = bind_symbols(program, {n: k for n, k in sizes.items() if n in symbols})
        weights = tuple(Var(n, program.constants[n].type) for n in self.names)
        constants = {n: c for n, c in bound.constants.items() if n not in self.names}
        main = replace(bound.main, params=(*bound.main.params, *weights))
        deduced = deduce(replace(bound, constants=constants).with_function(main))
        self._check_results(deduced)
        return deduced

    def _check_results(self, program: Program) -> None:
        """Raise UnsupportedOperator if the dtype or rank of a result is unknown."""
        for v in program.main.outputs:
            if isinstance(v.type, Tensor) and v.type.dtype is not None and v.type.rank is not None:
                continue
            body = program.main.body
            unknown = (b for b in body if any(map(_is_unknown, b.vars)))
            first = next(unknown, None) or next(b for b in body if v in b.vars)
            operator = first.expr.op if isinstance(first.expr, OpCall) else first.name
            raise UnsupportedOperator(
                f"the dtype and the rank of {v.name!r} are unknown, a result of "
                f"{self.model.name}, after {operator} at {min(first.origin, default=first.name)}",
                where=first.name,
                try_="a model without lists of tensors",
            )

    def with_params(self, params: Mapping[str, Any]) -> Model:
        """Return the model with other weights."""
        constants = dict(self.model.program.constants)
        for name in self.names:
            constants[name] = Constant(_cast_like(name, params, constants[name].array))
        program = replace(self.model.program, constants=constants)
        return replace(self.model, program=program, head=b"")

    def save(self, path: str | Path, params: Mapping[str, Any]) -> None:
        """Write the model's ONNX file with other weights, atomically.

        Raises:
            BadOption: the model comes from no ONNX file.
        """
        import onnx

        source = Path(self.model.path)
        if source.suffix != ".onnx" or not source.is_file():
            raise BadOption(f"{self.model.name} comes from no ONNX file", where=self.model.name)
        proto = onnx.load(source)
        for tensor in proto.graph.initializer:
            if tensor.name in self.names:
                array = _cast_like(tensor.name, params, self.params[tensor.name])
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        save_onnx(proto, Path(path))


def trainable(
    model: Model | str | os.PathLike[str] | Any, names: Collection[str] | None = None
) -> Pretrained:
    """Make the weights of a model trainable; `model` is anything that `explorer.load` takes.

    `names` are the constants to train, by default all floating-point ones of several elements
    except means and variances of data. For models of `torch.export.export` they are its parameters,
    as PyTorch names them, and no buffers: a norm computes in the mode that it was exported in.

    Raises:
        BadOption: a name is no floating-point constant of the model, or there is none.
    """
    if is_exported(model):
        loaded, learnt = load_exported(model, folds=False), model.graph_signature.parameters
        weights = tuple(n for n in learnt if n in loaded.program.constants)
    else:
        loaded = model if isinstance(model, Model) else load(model)
        weights = _trainable_names(loaded.program)
    if names is not None:
        constants = loaded.program.constants
        for name in names:
            if name not in constants or constants[name].array.dtype.kind != "f":
                raise BadOption(
                    f"{loaded.name} has no floating-point constant {name!r}",
                    where=name,
                    expected=", ".join(weights),
                )
        weights = tuple(names)
    if not weights:
        raise BadOption(f"{loaded.name} has no weight to train", where=loaded.name)
    return Pretrained(loaded, weights)


def _trainable_names(program: Program) -> tuple[str, ...]:
    statistics: set[str] = set()
    for _, b in program.bindings():
        if isinstance(b.expr, OpCall):
            places = STATISTICS.get(b.expr.op, ())
            args = b.expr.args
            statistics |= {v.name for n in places if n < len(args) and (v := args[n]) is not None}
    return tuple(
        name
        for name, c in program.constants.items()
        if c.array.dtype.kind == "f" and c.array.size > 1 and name not in statistics
    )


def _cast_like(name: str, params: Mapping[str, Any], like: np.ndarray) -> np.ndarray:
    array = np.asarray(params[name])
    if array.shape != like.shape:
        raise ShapeError(
            f"the weight {name} is {list(like.shape)}", where=name, actual=list(array.shape)
        )
    return array.astype(like.dtype)


def _is_unknown(var: Var) -> bool:
    return not (isinstance(var.type, Tensor) and var.type.dtype is not None)


def _static_dims(value: Any) -> tuple[int, ...]:
    if not all(isinstance(n, int) for n in value.shape):
        raise ShapeError(f"a pretrained model takes batches of known sizes, not {value.shape}")
    return tuple(value.shape)
