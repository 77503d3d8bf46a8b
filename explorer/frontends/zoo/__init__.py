"""Models by name: `zoo:squeezenet` and its companions, real graphs with weights that can be wrong.

`zoo:tiny_bert` and its like are small files of this package's own. Nine graphs are those that the
onnx package ships under `backend/test/data/light`; `salt` says what is done to them. The others are
built: the models of the papers, each written once as a function of the vocabulary of `layers`, from
which come an ONNX graph and a run in plain NumPy. `zoo:small_bert`
is a bert of the same blocks, fewer and smaller. `zoo:nasbench_17` is a random module, drawn from
the seed 17 (`nasbench`), and `zoo:layered_lstm` has an ONNX operator for each layer of `zoo:lstm`
in place of its cells, with the same weights. Models with control flow are written in Python over
arrays (`control_flow`), and have no ONNX form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.errors import BadOption, did_you_mean
from explorer.frontends.zoo import nasbench
from explorer.frontends.zoo.entries import ENTRIES, LAYERED, OTHER_FORMS, SMALL, Entry
from explorer.frontends.zoo.source import Built, Filed, Light, Written

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from explorer.frontends.model import Model
    from explorer.frontends.symbols import Bounds

__all__ = [
    "ENTRIES",
    "LAYERED",
    "OTHER_FORMS",
    "PREFIX",
    "SMALL",
    "Built",
    "Entry",
    "Filed",
    "Light",
    "Written",
    "entry",
    "load",
    "names",
    "proto",
    "reference",
]
PREFIX = "zoo:"


MOST_DIGITS = 18  # of the seed of a random module


def names() -> tuple[str, ...]:
    """The names that follow `zoo:`."""
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    """The entry of that name, with or without `zoo:`; BadOption names the known ones."""
    bare = name.removeprefix(PREFIX)
    found = ENTRIES.get(bare) or OTHER_FORMS.get(bare)
    if found is not None:
        return found
    seed = bare.removeprefix(nasbench.PREFIX)
    if seed != bare and seed.isdecimal() and len(seed) <= MOST_DIGITS:
        return _module(bare, int(seed))
    raise BadOption(
        f"the zoo has no model named {bare!r}{did_you_mean(bare, ENTRIES)}",
        where=name,
        expected=f"{', '.join(ENTRIES)}, or {nasbench.PREFIX}SEED",
        found=bare,
    )


def _module(name: str, seed: int) -> Entry:
    from explorer.frontends.zoo.onnx_layers import OnnxLayers

    module, net = nasbench.drawn(seed), OnnxLayers()
    module(net)
    weights = sum(weight.count for weight in net.weights.values())
    return Entry(name, Built(module), "Ying et al. 2019", weights)


def load(name: str, bounds: Bounds | None = None, seed: int = 0) -> Model:
    """The model of that name, with or without `zoo:`; one seed gives one model.

    Its weights are written to no file.
    """
    from explorer.frontends.files.onnx_file import OnnxFile
    from explorer.frontends.onnx.importer import from_file
    from explorer.frontends.onnx.importer import load as read

    found = entry(name)
    if isinstance(found.source, Written):
        model, path = found.source.model(seed, bounds), f"{PREFIX}{found.name}"
        return replace(model, name=found.name, path=path, head=model.head + _ending(seed))
    if isinstance(found.source, Filed):
        return read(found.source.path, bounds)
    graph, weights = found.source.graph(seed)
    head = graph.SerializeToString() + _ending(seed)
    return from_file(OnnxFile(graph, weights, head), found.name, f"{PREFIX}{found.name}", bounds)


def _ending(seed: int) -> bytes:
    """How the head of a model ends, which says its seed."""
    return f"seed {seed}".encode()


def proto(name: str, seed: int = 0) -> ModelProto:
    """The same model as ONNX holds it, for other runtimes; BadOption where it is written in
    Python.
    """
    from onnx import numpy_helper

    graph, weights = entry(name).source.graph(seed)
    while weights:  # one at a time, so that no weight is held twice for long
        first = next(iter(weights))
        graph.graph.initializer.append(numpy_helper.from_array(weights.pop(first), first))
    return graph


def reference(name: str, inputs: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """The outputs of a built model, computed in plain NumPy, without the compiler.

    Raises BadOption where the model is a file, or an input does not fit.
    """
    source = entry(name).source
    if isinstance(source, Light | Filed):
        raise BadOption(
            f"{name} is a file, which has no NumPy run; explorer.evaluate interprets it", where=name
        )
    return source.reference(inputs, seed)
