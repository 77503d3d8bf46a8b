"""Sources of entries: files of the onnx package or of this one, and Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from explorer.errors import BadModelFile, BadOption
from explorer.frontends.files.shipped import shipped_folder
from explorer.frontends.zoo.layers import Layers, V

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from explorer.frontends.model import Model
    from explorer.frontends.symbols import Bounds
    from explorer.frontends.zoo.control_flow.flow import Flow

LIGHT = Path("backend/test/data/light")


class Architecture(Protocol):
    """A model as a function of the layer vocabulary."""

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        ...


@dataclass(frozen=True, slots=True)
class Light:
    """A graph that the onnx package ships without its weights, which are drawn."""

    file: str

    @property
    def path(self) -> Path:
        """The file's path, without importing onnx; raises BadModelFile if it is missing."""
        spec = find_spec("onnx")
        path = Path(spec.origin).parent if spec and spec.origin else Path()
        path = path / LIGHT / self.file
        if not path.is_file():
            raise BadModelFile(
                f"the installed onnx package does not contain the graph {self.file}",
                where=self.file,
            )
        return path

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """Return the graph without its weights, and the weights by name."""
        import onnx

        from explorer.frontends.zoo.salt import salt_graph

        return salt_graph(onnx.load(self.path, load_external_data=False), seed)


@dataclass(frozen=True, slots=True)
class Filed:
    """A small file of this package with its weights, exported by PyTorch with symbolic dims."""

    file: str

    @property
    def path(self) -> Path:
        """The file's path; raises BadModelFile if it is missing."""
        path = shipped_folder("models") / self.file
        if not path.is_file():
            raise BadModelFile(f"this installation does not contain {self.file}", where=str(path))
        return path

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """Return the graph with its weights, which do not depend on the seed."""
        import onnx

        return onnx.load(self.path, load_external_data=False), {}


@dataclass(frozen=True, slots=True)
class Built:
    """A model written in the layer vocabulary."""

    architecture: Architecture

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """Return the graph without its weights, and the weights by name."""
        from explorer.frontends.zoo.onnx_layers import OnnxLayers

        net = OnnxLayers()
        self.architecture(net)
        return net.model(), dict(net.initializers(seed))

    def reference(self, inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Compute the outputs in plain NumPy."""
        from explorer.frontends.zoo.numpy_layers import NumpyLayers

        net = NumpyLayers(inputs, seed)
        self.architecture(net)
        return net.outputs


@dataclass(frozen=True, slots=True)
class Written:
    """A model written in Python over arrays, with Python's control flow.

    It is a module of `control_flow`, imported on demand.
    """

    module: str
    reduced: bool = False

    @property
    def flow(self) -> Flow:
        """The model at its size."""
        home = import_module(f"explorer.frontends.zoo.control_flow.{self.module}")
        flow: Flow = home.SMALL if self.reduced else home.FULL
        return flow

    def model(self, seed: int, bounds: Bounds | None) -> Model:
        """Trace the model."""
        from explorer.frontends.trace import Traced

        return Traced(self._function(seed)).model(self.flow.inputs, bounds)

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """Raise BadOption: the model has no ONNX form."""
        raise BadOption(
            f"{self.module} (seed {seed}) is written in Python, and has no ONNX form",
            where=self.module,
            try_="explorer.load",
        )

    def reference(self, inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Compute the outputs of the same code in plain NumPy."""
        import numpy as np

        outputs = self._function(seed)(**inputs)
        return {name: np.asarray(value) for name, value in outputs.items()}

    def _function(self, seed: int) -> Callable[..., Any]:
        return self.flow.function({w.name: w.drawn(seed) for w in self.flow.weights})
