"""Models by name: `zoo:squeezenet` and its companions, real graphs with weights that can be wrong.

The graphs are the nine that the onnx package ships under `backend/test/data/light`; `salt` says
what is done to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from explorer.errors import BadModelFile, BadOption

if TYPE_CHECKING:
    from onnx import ModelProto

    from explorer.frontends.model import Model
    from explorer.frontends.symbols import Bounds

__all__ = ["ENTRIES", "PREFIX", "Entry", "entry", "file_of", "load", "names", "proto"]

PREFIX = "zoo:"
LIGHT = Path("backend/test/data/light")


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the zoo: its file in the onnx package, its paper, and how many weights it has."""

    name: str
    file: str
    paper: str
    weights: int


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Entry("alexnet", "light_bvlc_alexnet.onnx", "Krizhevsky et al. 2012", 60_965_224),
            Entry("densenet121", "light_densenet121.onnx", "Huang et al. 2017", 8_146_152),
            Entry("inception_v1", "light_inception_v1.onnx", "Szegedy et al. 2015", 6_998_552),
            Entry("inception_v2", "light_inception_v2.onnx", "Ioffe and Szegedy 2015", 11_234_792),
            Entry("resnet50", "light_resnet50.onnx", "He et al. 2016", 25_610_152),
            Entry("shufflenet", "light_shufflenet.onnx", "Zhang et al. 2018", 1_420_152),
            Entry("squeezenet", "light_squeezenet.onnx", "Iandola et al. 2016", 1_235_496),
            Entry("vgg19", "light_vgg19.onnx", "Simonyan and Zisserman 2015", 143_667_240),
            Entry("zfnet", "light_zfnet512.onnx", "Zeiler and Fergus 2014", 87_250_536),
        )
    }
)


def names() -> tuple[str, ...]:
    """The names that follow `zoo:`."""
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    """The entry of that name, with or without `zoo:`; BadOption names the known ones."""
    bare = name.removeprefix(PREFIX)
    if bare in ENTRIES:
        return ENTRIES[bare]
    near = get_close_matches(bare, ENTRIES, n=1)
    raise BadOption(
        f"the zoo has no model named {bare!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        where=name,
        expected=", ".join(ENTRIES),
        found=bare,
        try_="ironworks zoo",
    )


def file_of(name: str) -> Path:
    """Where the graph of that name lies; the onnx package is found, not imported."""
    found = find_spec("onnx")
    path = Path(found.origin).parent if found and found.origin else Path()
    path = path / LIGHT / entry(name).file
    if not path.is_file():
        raise BadModelFile(
            f"the installed onnx package does not hold {entry(name).file}, the graph of {name}",
            where=name,
        )
    return path


def load(name: str, bounds: Bounds | None = None, seed: int = 0) -> Model:
    """The model of that name, with or without `zoo:`; one seed gives one model.

    Its weights are written to no file.
    """
    import onnx

    from explorer.frontends.onnx_file import OnnxFile
    from explorer.frontends.onnx_import import from_file
    from explorer.frontends.zoo.salt import salted

    found = entry(name)
    graph, weights = salted(onnx.load(file_of(name), load_external_data=False), seed)
    head = graph.SerializeToString() + f"seed {seed}".encode()
    return from_file(OnnxFile(graph, weights, head), found.name, f"{PREFIX}{found.name}", bounds)


def proto(name: str, seed: int = 0) -> ModelProto:
    """The same model as ONNX holds it, for other runtimes."""
    import onnx

    from explorer.frontends.zoo.salt import salt

    return salt(onnx.load(file_of(name), load_external_data=False), seed)
