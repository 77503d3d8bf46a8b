"""A failing case made small: fewer outputs and nodes, plain attributes, small extents and values.

Delta debugging (Zeller and Hildebrandt 2002): a change stays where the case still fails as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import process_time

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.blame import reads, with_every_value
from tests.fuzz.oracle import NoAnswer, Oracle
from tests.strategies.onnx.graphs import Case

Fails = Callable[[Case], bool]
SECONDS = 40.0


def shrunk(case: Case, fails: Fails, seconds: float = SECONDS) -> Case:
    """The smallest case found that still fails."""
    end = process_time() + seconds
    moved = True
    while moved and process_time() < end:
        moved = False
        for change in (_fewer_bindings, _fewer_outputs, _cut, _plainer, _smaller, _calmer):
            again = True
            while again and process_time() < end:
                again = False
                for candidate in change(case):
                    if process_time() > end:
                        break
                    tidy = tidied(candidate)
                    if tidy is not None and _fails(tidy, fails):
                        case, moved, again = tidy, True, True
                        break
    return case


def _fails(case: Case, fails: Fails) -> bool:
    try:
        return fails(case)
    except Exception:  # what a cut made of the graph may mean nothing
        return False


def copied(case: Case) -> tuple[onnx.ModelProto, onnx.GraphProto]:
    """A copy of the model that may be changed."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    return model, model.graph


def tidied(case: Case) -> Case | None:
    """The case without what no output needs; None where nothing is left."""
    model, graph = copied(case)
    needed = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(reads(node))
    if not kept:
        return None
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in reversed(kept)]
    inputs = [i for i in graph.input if i.name in needed]
    weights = [i for i in graph.initializer if i.name in needed]
    made = helper.make_graph(nodes, graph.name, inputs, list(graph.output), weights)
    model.graph.CopyFrom(made)
    names = {i.name for i in model.graph.input}
    feeds = tuple({k: a for k, a in f.items() if k in names} for f in case.feeds)
    return Case(case.seed, model, feeds)


def _fewer_bindings(case: Case) -> Iterator[Case]:
    if len(case.feeds) > 1:
        for feeds in case.feeds:
            yield replace(case, feeds=(feeds,))


def _fewer_outputs(case: Case) -> Iterator[Case]:
    """One output alone: any value of the graph, early ones first; or one output less."""
    many = len(case.model.graph.output) > 1
    for name in (name for node in case.model.graph.node for name in node.output if name):
        if not many and name == case.model.graph.output[0].name:
            return
        model, graph = copied(case)
        del graph.output[:]
        graph.output.add(name=name)
        yield replace(case, model=model)
    if many:
        for n in range(len(case.model.graph.output)):
            model, graph = copied(case)
            del graph.output[n]
            yield replace(case, model=model)


def _cut(case: Case) -> Iterator[Case]:
    """A value becomes an input, with what it is in the graph: the nodes before it go."""
    try:
        values = [Oracle(with_every_value(case.model))(f) for f in case.feeds]
    except NoAnswer:
        return
    outputs = {o.name for o in case.model.graph.output}
    for node in reversed(case.model.graph.node):
        names = [n for n in node.output if n]
        if not names or outputs.issuperset(names) or any(n not in values[0] for n in names):
            continue
        model, graph = copied(case)
        kept = [n for n in graph.node if n.name != node.name]
        if len(kept) == len(graph.node):
            continue
        del graph.node[:]
        graph.node.extend(kept)
        for name in names:
            if name not in outputs:
                first = values[0][name]
                kind = helper.np_dtype_to_tensor_dtype(first.dtype)
                static = len(values) == 1
                shape = first.shape if static else [None] * first.ndim
                graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        feeds = tuple({**f, **{n: v[n] for n in names if n not in outputs}}
                      for f, v in zip(case.feeds, values))  # fmt: skip
        yield replace(case, model=model, feeds=feeds)


PLAIN = {"group": 1, "dilations": 1, "strides": 1, "pads": 0, "output_padding": 0, "auto_pad": None}


def _plainer(case: Case) -> Iterator[Case]:
    """One attribute, or one element of it, as it is by default; one optional argument less."""
    for n, node in enumerate(case.model.graph.node):
        for m, attribute in enumerate(node.attribute):
            wish = PLAIN.get(attribute.name)
            if attribute.name not in PLAIN:
                continue
            for i, now in enumerate(attribute.ints):
                if now != wish and isinstance(wish, int):
                    model, graph = copied(case)
                    graph.node[n].attribute[m].ints[i] = wish
                    yield replace(case, model=model)
            if wish is None:
                model, graph = copied(case)
                del graph.node[n].attribute[m]
                yield replace(case, model=model)
        if len(node.input) > 2:
            model, graph = copied(case)
            del graph.node[n].input[-1]
            yield replace(case, model=model)
    if any(d.dim_param for i in case.model.graph.input for d in i.type.tensor_type.shape.dim):
        model, graph = copied(case)  # no symbols
        for info in graph.input:
            shape = case.feeds[0][info.name].shape
            kind = info.type.tensor_type.elem_type
            info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shape))
        yield replace(case, model=model, feeds=case.feeds[:1])


def _smaller(case: Case) -> Iterator[Case]:
    """An extent smaller wherever it stands, in inputs and constants at once, or in one place."""
    weights = {i.name: numpy_helper.to_array(i) for i in case.model.graph.initializer}
    arrays = {**case.feeds[0], **weights} if case.feeds else weights
    extents = sorted({n for a in arrays.values() for n in a.shape if n > 1}, reverse=True)
    places = [(name, axis) for name, a in arrays.items() for axis, n in enumerate(a.shape) if n > 1]
    for wish in (1, 2, 3, None):
        for extent in extents:
            goal = extent // 2 if wish is None else wish
            if goal < extent:
                yield _resized(case, weights, lambda name, axis, n, e=extent, g=goal:
                               g if n == e else n)  # fmt: skip
        for place in places:
            yield _resized(case, weights, lambda name, axis, n, p=place, w=wish:
                           min(n, w or n // 2) if (name, axis) == p else n)  # fmt: skip


def _resized(
    case: Case, weights: dict[str, np.ndarray], rule: Callable[[str, int, int], int]
) -> Case:
    model, graph = copied(case)

    def cut(name: str, array: np.ndarray) -> np.ndarray:
        wish = tuple(slice(rule(name, axis, n)) for axis, n in enumerate(array.shape))
        return np.ascontiguousarray(array[wish]).reshape(array[wish].shape)

    for initializer in graph.initializer:
        array = weights[initializer.name]
        if array.dtype.kind == "f":
            initializer.CopyFrom(numpy_helper.from_array(cut(initializer.name, array),
                                                         initializer.name))  # fmt: skip
    feeds = tuple({k: cut(k, a) for k, a in f.items()} for f in case.feeds)
    for info in graph.input:
        for d, n in zip(info.type.tensor_type.shape.dim, feeds[0][info.name].shape):
            if d.WhichOneof("value") == "dim_value":
                d.dim_value = n
    for output in graph.output:
        output.ClearField("type")
    return replace(case, model=model, feeds=feeds)


def _calmer(case: Case) -> Iterator[Case]:
    """Small whole numbers in the place of what stands in inputs."""
    whole = tuple(
        {k: np.round(np.nan_to_num(a)).astype(a.dtype) if a.dtype.kind == "f" else a
         for k, a in f.items()}
        for f in case.feeds
    )  # fmt: skip
    changed = any(not np.array_equal(a, w[k], equal_nan=a.dtype.kind == "f")
                  for f, w in zip(case.feeds, whole) for k, a in f.items())  # fmt: skip
    if changed:
        yield replace(case, feeds=whole)
