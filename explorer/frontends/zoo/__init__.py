"""Models by name, such as `zoo:squeezenet`: real graphs with distinct, seeded weights.

`zoo:tiny_bert` and other tiny models are small files of this package. Nine graphs are those that
the onnx package ships under `backend/test/data/light`; `onnx_graphs` draws their weights. The
others are built: the models of the papers, each written once as a function of `Layers`, from which
an ONNX graph and a run in plain NumPy follow. `zoo:small_bert` is a BERT of the same blocks, fewer
and smaller. `zoo:nasbench_17` is a random module, drawn from the seed 17 (`searched`).
`zoo:layered_lstm` has one ONNX operator for each layer of `zoo:lstm` in place of its cells, with
the same weights. Models with control flow are written in Python over arrays (`flow`), and have no
ONNX form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.errors import BadOption, did_you_mean
from explorer.frontends.zoo.entries import (
    ENTRIES,
    LAYERED,
    OTHER_FORMS,
    SMALL,
    Built,
    Entry,
    Filed,
    Light,
    Written,
)

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from explorer.frontends.model import Bounds, Model

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
    """Return the names that follow `zoo:`."""
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    """Return the entry of that name, with or without `zoo:`; BadOption lists the known names."""
    bare = name.removeprefix(PREFIX)
    known_entry = ENTRIES.get(bare) or OTHER_FORMS.get(bare)
    if known_entry is not None:
        return known_entry
    from explorer.frontends.zoo import searched  # of random modules alone

    seed = bare.removeprefix(searched.NASBENCH)
    if seed != bare and seed.isdecimal() and len(seed) <= MOST_DIGITS:
        return _module(bare, int(seed))
    raise BadOption(
        f"the zoo has no model named {bare!r}{did_you_mean(bare, ENTRIES)}",
        where=name,
        expected=f"{', '.join(ENTRIES)}, or {searched.NASBENCH}SEED",
        actual=bare,
    )


def _module(name: str, seed: int) -> Entry:
    from explorer.frontends.zoo import searched
    from explorer.frontends.zoo.onnx_graphs import OnnxLayers

    module, net = searched.draw_module(seed), OnnxLayers()
    module(net)
    weights = sum(weight.count for weight in net.weights.values())
    return Entry(name, Built(module), "Ying et al. 2019", weights)


def load(name: str, bounds: Bounds | None = None, seed: int = 0) -> Model:
    """Load the model of that name, with or without `zoo:`; a seed determines its weights.

    No weight is written to a file.
    """
    from explorer.frontends.onnx.importer import from_file
    from explorer.frontends.onnx.importer import load as read
    from explorer.frontends.onnx.onnx_file import OnnxFile

    model_entry = entry(name)
    if isinstance(model_entry.source, Written):
        model, path = model_entry.source.model(seed, bounds), f"{PREFIX}{model_entry.name}"
        return replace(model, name=model_entry.name, path=path, head=model.head + _ending(seed))
    if isinstance(model_entry.source, Filed):
        return read(model_entry.source.path, bounds)
    graph, weights = model_entry.source.graph(seed)
    head = graph.SerializeToString() + _ending(seed)
    return from_file(
        OnnxFile(graph, weights, head), model_entry.name, f"{PREFIX}{model_entry.name}", bounds
    )


def _ending(seed: int) -> bytes:
    """Return the suffix of a model's head that holds its seed."""
    return f"seed {seed}".encode()


def proto(name: str, seed: int = 0) -> ModelProto:
    """Return the same model in ONNX, for other runtimes.

    Raises:
        BadOption: the model is written in Python.
    """
    from onnx import numpy_helper

    graph, weights = entry(name).source.graph(seed)
    while weights:  # one at a time, so that only one weight is duplicated in memory
        first = next(iter(weights))
        graph.graph.initializer.append(numpy_helper.from_array(weights.pop(first), first))
    return graph


def reference(name: str, inputs: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """Compute the outputs of a built model in plain NumPy, without the compiler.

    Raises:
        BadOption: the model is a file, or an input does not fit.
    """
    source = entry(name).source
    if isinstance(source, Light | Filed):
        raise BadOption(
            f"{name} is a file, which has no NumPy reference; use explorer.evaluate", where=name
        )
    return source.reference(inputs, seed)
