"""Quantize the constant matrices of a model's products to a few bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any

import numpy as np

from explorer.errors import BadOption, did_you_mean
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.program import Constant, Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.quantization.constant_products import (
    ConstantProduct,
    Matrices,
    constant_products,
    with_low_bits,
)
from explorer.quantization.low_bit_matrix import (
    LowBitFormat,
    RoundedMatrix,
    quantized,
    weight_error,
)
from explorer.quantization.quantization import FLOAT, Quantization, QuantizedLayer

Feed = Mapping[str, Any]


def quantize(
    model: Model | str | PathLike[str],
    kind: str = "int4",
    block: int | None = 32,
    keep: str | Sequence[str] = (),
    *,
    symmetric: bool = True,
    inputs: Feed | Sequence[Feed] = (),
    progress: Callable[[str, int, int], None] | None = None,
) -> Model:
    """Return a model whose products with constant float32 matrices read weights of a few bits.

    These are MatMul and Gemm, also with a transposed weight. Everything else stays in float32. The
    result is of the model's class; its `quantization` has bits, bytes and errors of each layer. It
    can be quantized again: the products that were left in float32 then get other bits.

    Args:
        model: A model that `explorer.load` returned, or what it takes.
        kind: int8, int4, int2, nf4 or fp8. nf4 needs a block, fp8 `block=None`.
        block: The elements along the sum that share a scale, a power of two from 16 on. None: one
            scale for each column.
        keep: Products to leave in float32, by the name of the weight, the operator or the result,
            or its beginning up to a dot: `lm_head` is `lm_head.weight`, too. `*` and `?` are
            wildcards.
        symmetric: Without zero points.
        inputs: Inputs by name, or several of those, for the error of each layer's output. A
            language model needs no caches and positions.
        progress: Called as `progress(weight, done, all)` before a weight is rounded.

    Raises:
        BadOption: a kind or block is unknown, a name matches no product, there is no product, or a
            weight is not finite.
    """
    form = LowBitFormat(kind, block, symmetric)
    loaded = model if isinstance(model, Model) else load(model)
    products = constant_products(loaded.program)
    if not products:
        raise BadOption(
            f"{loaded.name} has no product with a constant float32 matrix", where=loaded.name
        )
    exact = _select(products, (keep,) if isinstance(keep, str) else tuple(keep), loaded.name)
    chosen = {(p.weight, p.by_rows): p for p in products if p not in exact}
    constants = loaded.program.constants
    matrices: dict[tuple[str, bool], RoundedMatrix] = {}
    errors: dict[tuple[str, bool], float] = {}
    for done, (key, product) in enumerate(chosen.items()):
        if progress is not None:
            progress(product.weight, done, len(chosen))
        matrix = product.matrix(constants)
        _check_finite(matrix, product.weight)
        matrices[key] = quantized(matrix, form)
        errors[key] = weight_error(matrix, matrices[key])
    program = with_low_bits(loaded.program, products, matrices)
    feeds = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    outputs = _output_errors(loaded, products, matrices, feeds) if feeds else {}
    rows = tuple(
        _layer(p, constants, form, matrices.get((p.weight, p.by_rows)), errors, outputs)
        for p in products
    )
    quantization = _after(loaded, rows, _bytes(program))
    return replace(loaded, program=program, head=b"", path="", quantization=quantization)


def _bytes(program: Program) -> int:
    return sum(c.nbytes for c in program.constants.values())


def _after(model: Model, rows: tuple[QuantizedLayer, ...], count: int) -> Quantization:
    """Return the table of a model; layers that were quantized before keep their rows."""
    before = model.quantization
    if before is None:
        return Quantization(rows, _bytes(model.program), count)
    new = {(row.weight, row.operator): row for row in rows}
    layers = tuple(new.get((row.weight, row.operator), row) for row in before.layers)
    return replace(before, layers=layers, bytes_after=count)


def _check_finite(matrix: np.ndarray, name: str) -> None:
    """Raise BadOption if an element is infinite or NaN."""
    if not np.isfinite(matrix.sum(dtype=np.float64)):
        raise BadOption(f"the weight {name} is not finite", where=name, try_=f"keep=({name!r},)")


def _select(
    products: Sequence[ConstantProduct], patterns: Sequence[str], model: str
) -> frozenset[ConstantProduct]:
    """Return the products that a pattern names; raise BadOption for one that names none."""
    exact: set[ConstantProduct] = set()
    for pattern in patterns:
        matching = [p for p in products if any(_matches(n, pattern) for n in p.names)]
        if not matching:
            names = [n for p in products for n in p.names]
            raise BadOption(
                f"keep names {pattern!r}, which is no product of {model} with a constant matrix"
                f"{did_you_mean(pattern, names)}",
                where="keep",
                expected=", ".join(dict.fromkeys(p.weight for p in products)),
                actual=pattern,
            )
        exact.update(matching)
    return frozenset(exact)


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _layer(
    product: ConstantProduct,
    constants: Mapping[str, Constant],
    form: LowBitFormat,
    matrix: RoundedMatrix | None,
    errors: Mapping[tuple[str, bool], float],
    outputs: Mapping[ConstantProduct, float],
) -> QuantizedLayer:
    """Return the row of a product; `matrix` is None if it stays in float32."""
    n, depth = product.matrix(constants).shape
    before = constants[product.weight].nbytes
    if matrix is None:
        kind, block, symmetric, after, error = FLOAT, None, None, before, 0.0
    else:
        kind, block, symmetric = form.kind, matrix.block, form.symmetric
        after = sum(a.nbytes for a in matrix.arrays.values())
        error = errors[product.weight, product.by_rows]
    output = outputs.get(product)
    layout = (depth, n, kind, block, symmetric)
    return QuantizedLayer(product.weight, product.operator, *layout, before, after, error, output)


def _output_errors(
    model: Model,
    products: Sequence[ConstantProduct],
    matrices: Matrices,
    feeds: Sequence[Feed],
) -> dict[ConstantProduct, float]:
    """Return the error of each product's result for the inputs that it has in the float model."""
    program = model.program
    seen = [p for p in products if p.function == program.main.name]
    lost, total = dict.fromkeys(seen, 0.0), dict.fromkeys(seen, 0.0)
    for feed in feeds:
        for p, x in zip(seen, _left_operands(model, seen, feed), strict=True):
            rows = x.reshape(-1, x.shape[-1])
            result = rows @ p.matrix(program.constants).T
            total[p] += float(np.square(result, dtype=np.float64).sum())
            if (key := (p.weight, p.by_rows)) in matrices:
                for begin, part in matrices[key].values():
                    gap = result[:, begin : begin + len(part)] - rows @ part.T
                    lost[p] += float(np.square(gap, dtype=np.float64).sum())
    return {p: (lost[p] / total[p]) ** 0.5 if total[p] else 0.0 for p in seen}


def _left_operands(
    model: Model, products: Sequence[ConstantProduct], feed: Feed
) -> Iterator[np.ndarray]:
    """Evaluate the float model and yield the left operand of each product."""
    main = model.program.main
    names = tuple(f"left.{n}" for n in range(len(products)))
    outputs = tuple(p.x for p in products)
    observed = replace(main, outputs=outputs, output_names=names)
    values = evaluate(model.program.with_function(observed), _complete(model, feed))
    return (values[name] for name in names)


def _complete(model: Model, feed: Feed) -> dict[str, np.ndarray]:
    """Return all inputs: state at its initial value, empty caches of a language model."""
    arrays = {name: np.asarray(a) for name, a in feed.items()}
    first = {name: state.first for name, state in model.state.items()}
    if isinstance(model, LanguageModel) and model.config is not None and "ids" in arrays:
        batch, n = arrays["ids"].shape
        cache = np.zeros((batch, model.config.groups, n, model.config.each), np.float32)
        first |= {"at": np.zeros(batch, np.int64), **dict.fromkeys(model.caches, cache)}
    return first | arrays
