"""Where the graph of an entry is from: a file of the onnx package, or a function of the zoo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from explorer.errors import BadModelFile
from explorer.frontends.zoo.layers import Layers, V

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

LIGHT = Path("backend/test/data/light")


class Architecture(Protocol):
    """A model as a function of the vocabulary."""

    def __call__(self, net: Layers[V]) -> None: ...


@dataclass(frozen=True, slots=True)
class Light:
    """A graph that the onnx package ships without its weights, which are drawn anew."""

    file: str

    @property
    def path(self) -> Path:
        """Where it lies; the onnx package is found, not imported. Raises BadModelFile."""
        found = find_spec("onnx")
        path = Path(found.origin).parent if found and found.origin else Path()
        path = path / LIGHT / self.file
        if not path.is_file():
            raise BadModelFile(
                f"the installed onnx package does not hold the graph {self.file}", where=self.file
            )
        return path

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """The graph without its weights, and the weights by name."""
        import onnx

        from explorer.frontends.zoo.salt import salted

        return salted(onnx.load(self.path, load_external_data=False), seed)


@dataclass(frozen=True, slots=True)
class Built:
    """A model that is written in the zoo's vocabulary."""

    architecture: Architecture

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """The graph without its weights, and the weights by name."""
        from explorer.frontends.zoo.onnx_layers import OnnxLayers

        net = OnnxLayers()
        self.architecture(net)
        return net.model(), dict(net.initializers(seed))

    def reference(self, inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """The outputs, computed in plain NumPy."""
        from explorer.frontends.zoo.numpy_layers import NumpyLayers

        net = NumpyLayers(inputs, seed)
        self.architecture(net)
        return net.outputs
