"""One operator with random attributes, whose input dims are numbers, symbols, or some of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import onnx

from tests.strategies.choices import Choices, Refused, generator
from tests.strategies.onnx.graph import Extent, Graph
from tests.strategies.onnx.graphs import RECIPES, Case, case, model_of, shape_of_input
from tests.strategies.onnx.recipes import random_array
from tests.strategies.onnx.recipes_windows import image

Feeds = dict[str, np.ndarray]
NEXT_CASE = 1_000_000_007  # from a graph without dims to the next seed
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 9)


@dataclass(frozen=True)
class SymbolicCase:
    """A model whose inputs have the dims `shapes`; `sizes` bind all symbols in some ways."""

    model: onnx.ModelProto
    shapes: Mapping[str, tuple[Extent, ...]]
    sizes: tuple[Mapping[str, int], ...]

    def at(self, sizes: Mapping[str, int]) -> onnx.ModelProto:
        """Return the model with numbers in the place of symbols."""
        return with_dims(
            self.model,
            {n: [sizes.get(str(d), d) for d in dims] for n, dims in self.shapes.items()},
        )

    @property
    def symbolic(self) -> onnx.ModelProto:
        """Return the model with its symbols."""
        return with_dims(self.model, self.shapes)

    def feeds(self, sizes: Mapping[str, int]) -> Feeds:
        """Return random inputs under a binding."""
        rng = np.random.default_rng(0)
        found = {}
        for value in self.model.graph.input:
            shape = [int(sizes.get(str(d), d)) for d in self.shapes[value.name]]
            kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            if kind.kind == "f":
                found[value.name] = np.asarray(rng.standard_normal(shape), kind)
            else:
                found[value.name] = np.asarray(rng.integers(0, 4, shape), kind)
        return found


def with_dims(model: onnx.ModelProto, shapes: Mapping[str, Sequence[Extent]]) -> onnx.ModelProto:
    """Return a copy whose inputs have these dims, and whose outputs tell no shape."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for value in found.graph.input:
        kind = value.type.tensor_type
        value.CopyFrom(
            onnx.helper.make_tensor_value_info(value.name, kind.elem_type, shapes[value.name])
        )
    for value in found.graph.output:
        value.type.tensor_type.ClearField("shape")
    return found


def pool(g: Graph) -> None:
    """A pool with every mode of padding, and ceil_mode."""
    op, value = g.one(("MaxPool", "AveragePool", "LpPool")), image(g, ("float32",))
    rank = value.rank - 2
    kernel = [g.number(1, 4) for _ in range(rank)]
    more: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": g.number(0, 1)}
    more["strides"] = [g.number(1, 4) for _ in range(rank)]
    if op != "LpPool" and g.opset > 18 and g.chance(0.3):
        more["dilations"] = [g.number(1, 2) for _ in range(rank)]
    if g.chance(0.5):
        more["auto_pad"] = g.one(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        more["pads"] = [g.number(0, k - 1) for k in kernel * 2]
    if op == "AveragePool":
        more["count_include_pad"] = g.number(0, 1)
    g.add_all(op, value, results=1 + (op == "MaxPool" and g.chance(0.3)), **more)


def transposed(g: Graph) -> None:
    """A transposed convolution to a given shape, or with padding of every mode."""
    value = image(g, ("float32",))
    rank, channels = value.rank - 2, value.extent(1)
    kernel, strides = ([g.number(1, 3) for _ in range(rank)] for _ in "ks")
    more: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    more["dilations"] = [g.number(1, 2) for _ in range(rank)]
    if g.chance(0.3):
        more["output_padding"] = [g.number(0, s - 1) for s in strides]
    if g.chance(0.6):
        more["output_shape"] = [
            max(1, n * s + g.number(-2, 3)) for n, s in zip(value.extents[2:], strides)
        ]
    if g.chance(0.6):
        more["auto_pad"] = g.one(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif "output_shape" not in more:
        more["pads"] = [g.number(0, 1) for _ in range(2 * rank)]
    weights = g.constant(random_array(g, "float32", (channels, g.number(1, 3), *kernel)))
    g.add("ConvTranspose", value, weights, **more)


def squeeze(g: Graph) -> None:
    """A Squeeze of all dims of one element."""
    g.add("Squeeze", g.pick())


EVERY = (*(recipe for _, recipe in RECIPES), *(pool, transposed) * 6, squeeze)


@generator
def cases(c: Choices) -> SymbolicCase:
    """One recipe; none, some or all of the dims of its inputs are symbols."""
    g = Graph(c, c.one((18, 19, 20, 21, 22)))
    recipe = c.one(EVERY)
    dtype = c.one(("float32",) * 6 + ("float64", "int64", "int32", "float16"))
    g.input(dtype, shape_of_input(g, False))
    recipe(g)
    model = model_of(g, "symbolic")
    return with_symbols(c, model, c.one((0.0, 0.5, 1.0)))


def with_symbols(
    c: Choices, model: onnx.ModelProto, share: float, shared: bool = False
) -> SymbolicCase:
    """Return a model with such a share of its dims as symbols; `shared`: one for each extent."""
    shapes: dict[str, tuple[Extent, ...]] = {}
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        dims: list[Extent] = [d.dim_value for d in value.type.tensor_type.shape.dim]
        for d, n in enumerate(dims):
            if c.chance(share) and n:
                alike = [name for name, size in sizes.items() if shared and size == n]
                dims[d] = name = alike[0] if alike else f"q{len(sizes)}"
                sizes[name] = int(n)
        shapes[value.name] = tuple(dims)
    others = tuple(
        {name: c.one((size, size, size + 1, c.one(SIZES))) for name, size in sizes.items()}
        for _ in range(2 * bool(sizes))
    )
    if any(node.op_type == "Einsum" for node in model.graph.node):
        # over symbols an extent that meets another one is that one, and is not stretched from 1
        others = tuple(other for other in others if 1 not in other.values())
    return SymbolicCase(model, shapes, (sizes, *others))


@generator
def graphs(c: Choices, seed: int) -> Case:
    """A random graph that has some or all dims of its inputs as symbols, and other sizes."""
    # a seed has one graph: refused for having no dims, it would be drawn for ever
    cases = (case(seed + n) for n in count(0, NEXT_CASE))
    given = next(g for g in cases if any(any(a.shape) for a in g.feeds[0].values()))
    numbers = with_dims(given.model, {name: a.shape for name, a in given.feeds[0].items()})
    symbolic = with_symbols(c, numbers, c.one((0.5, 1.0)), c.chance(0.7))
    if len(symbolic.sizes) == 1:  # no dim is a symbol
        raise Refused
    more = tuple(symbolic.feeds(sizes) for sizes in symbolic.sizes[1:])
    return Case(seed, symbolic.symbolic, (given.feeds[0], *more))
