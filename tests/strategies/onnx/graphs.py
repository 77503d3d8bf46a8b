"""Hard ONNX graphs and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.strategies.choices import Choices, Refused, generator
from tests.strategies.onnx import recipes as r
from tests.strategies.onnx import recipes_control as control
from tests.strategies.onnx import recipes_layout as layout
from tests.strategies.onnx import recipes_products as products
from tests.strategies.onnx import recipes_windows as windows
from tests.strategies.onnx.graph import EXTENTS, FLOATS, MOST_ELEMENTS, Extent, Graph, info_of

Feeds = dict[str, np.ndarray]
Recipe = Callable[[Graph], None]
DIM_NAMES = ("batch", "seq", "height", "a", "b", "dim 3", "3rd", "s0+1", "B-1")
RECIPES: tuple[tuple[float, Recipe], ...] = (
    (5, r.unary), (6, r.binary), (2, r.compared), (0.5, r.logical), (1.5, r.cast), (1, r.clip),
    (4, r.reduced), (1, r.picked_out), (2, r.softmax), (1.5, r.running), (2.5, r.normalised),
    (7, windows.conv), (4, windows.conv_transpose), (3, windows.pool), (1.5, windows.resize),
    (1, windows.depth), (3, layout.transpose), (2.5, layout.reshape), (0.5, layout.flatten),
    (1.5, layout.squeeze), (3, layout.sliced), (2.5, layout.padded), (1, layout.tiled),
    (1, layout.expanded), (2, layout.joined), (1.5, layout.split), (1.5, layout.gather),
    (1.5, layout.gather_elements), (1.5, layout.gather_nd), (1.5, layout.scatter),
    (1, layout.trilu), (1, layout.top),
    (0.5, layout.one_hot), (0.5, layout.reversed_rows), (0.5, layout.shape_of),
    (0.3, layout.numbers), (4, products.matmul), (2, products.gemm), (3, products.chain),
    (1.5, products.attention), (1, products.einsum), (0.7, products.recurrent),
    (1, products.quantised), (1, control.branch), (1.2, control.loop), (0.8, control.scan),
)  # fmt: skip
WEIGHTS = np.array([w for w, _ in RECIPES]) / sum(w for w, _ in RECIPES)


@dataclass(frozen=True)
class Case:
    """A model, and inputs for each binding that it is run at."""

    seed: int
    model: onnx.ModelProto
    feeds: tuple[Feeds, ...]

    @property
    def operators(self) -> list[str]:
        """The operators of the graph, bodies left out."""
        return [n.op_type for n in self.model.graph.node]


@generator
def graphs(c: Choices, seed: int = -1, most: int = 9) -> Case:
    """A graph of up to `most` recipes."""
    g = Graph(c, c.one((18, 19, 20, 21, 22)))
    _inputs(g)
    for _ in range(c.number(1, most)):
        _step(g)
    if not g.nodes:
        raise Refused
    model = model_of(g, f"fuzz_{seed}")
    return Case(seed, model, _feeds(g, {i.name for i in model.graph.input}))


def case(seed: int) -> Case:
    """Return the case of a seed."""
    return graphs.of((seed, 1), seed)


def _step(g: Graph) -> None:
    recipe = RECIPES[g.choices.weighted(WEIGHTS)][1]
    before = len(g.nodes), len(g.values)
    try:
        recipe(g)
    except Refused:  # what it had begun is taken back
        del g.nodes[before[0] :], g.values[before[1] :]


def _inputs(g: Graph) -> None:
    dynamic = g.chance(0.25)
    shape: tuple[Extent, ...] = ()
    for n in range(g.number(1, 2)):
        if not n or g.chance(0.5):
            shape = shape_of_input(g, dynamic)
        dtype = g.one(("float32",) * 14 + ("float16",) * 3 + ("float64",) * 3 + ("int64", "int32"))
        if n and g.chance(0.6):
            dtype = g.inputs[0].dtype
        g.input(dtype, tuple(1 if g.chance(0.1) else e for e in shape))


def shape_of_input(g: Graph, dynamic: bool) -> tuple[Extent, ...]:
    """Return a random shape, with symbols where it is dynamic."""
    rank = g.one((1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5))
    shape: list[Extent] = [g.one(EXTENTS) for _ in range(rank)]
    while prod(n for n in shape if isinstance(n, int)) > MOST_ELEMENTS:
        shape[g.number(0, rank - 1)] = g.one((1, 2, 3))
    if g.chance(0.02):
        shape[g.number(0, rank - 1)] = 0
    if dynamic:
        places = [axis for axis in range(rank) if g.chance(0.3)] or [0]
        for axis in places:
            name = g.one(DIM_NAMES)
            shape[axis] = name
            g.hints.setdefault(name, g.one((2, 3, 4, 5, 7)))
    return tuple(shape)


def model_of(g: Graph, name: str) -> onnx.ModelProto:
    """Return the graph as a model, whose outputs are what no node reads."""
    used = {i for n in _all_nodes(g.nodes) for i in n.input}
    inputs = [v for v in g.inputs if v.name in used] or g.inputs[:1]
    made = [v for v in g.values if v not in g.inputs]
    outputs = [v for v in made if v.name not in used or g.chance(0.1)]
    graph = helper.make_graph(
        g.nodes,
        name,
        [info_of(v) for v in inputs],
        [info_of(v) for v in outputs[:7]],
        [numpy_helper.from_array(a, n) for n, a in g.constants.items() if n in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=9)


def _all_nodes(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    found = []
    for node in nodes:
        found.append(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += _all_nodes(list(attribute.g.node))
    return found


def _feeds(g: Graph, names: set[str]) -> tuple[Feeds, ...]:
    """Inputs at the hints; of dynamic dims also at 1, 0 and a larger size."""
    bindings = [dict(g.hints)]
    if g.hints:
        bindings += [dict.fromkeys(g.hints, 1), dict.fromkeys(g.hints, 17)]
        if g.chance(0.4):
            bindings.append(dict.fromkeys(g.hints, 0))
    strange = g.chance(0.12)
    return tuple(
        {v.name: _array(g, v.dtype, tuple(b.get(str(n), n) for n in v.shape), strange)
         for v in g.inputs if v.name in names}
        for b in bindings
    )  # fmt: skip


def _array(g: Graph, dtype: str, shape: tuple[Extent, ...], strange: bool) -> np.ndarray:
    found = r.random_array(g, dtype, tuple(int(n) for n in shape), g.one((1.0, 1.0, 1.0, 5.0)))
    if strange and dtype in FLOATS and found.size:
        at = g.rng.integers(0, found.size, g.number(1, 3))
        found.reshape(-1)[at] = g.one((np.nan, np.inf, -np.inf, 0.0, -0.0))
    return found
