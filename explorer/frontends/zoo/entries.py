"""Entries of the zoo: name, source, paper, and number of weights.

A source is a file of the onnx package or of this one, a function of the layer vocabulary, or a
Python function over arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from explorer.errors import BadModelFile, BadOption
from explorer.frontends.shipped import shipped_folder

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from explorer.frontends.model import Bounds, Model
    from explorer.frontends.zoo.flow import Flow
    from explorer.frontends.zoo.layers import Layers, V

LAYERED = "layered_"  # prefix of models with an LSTM operator in place of a layer's cells
OF_CELLS = ("lstm", "lstm_tc", "seq2seq")  # the models that have a layered form
SMALL = "small_"  # prefix of the reduced models: every kind of block, once or twice


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the zoo."""

    name: str
    source: Light | Filed | Built | Written
    paper: str
    weights: int


# Sources.


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

        from explorer.frontends.zoo.onnx_graphs import salt_graph

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
class Named:
    """An architecture of a module of the zoo, which is imported when the model is built.

    It is a constant, or a class at its default size, such as "images.Nerf". `layered`: with an
    operator for each layer.
    """

    place: str
    layered: bool = False

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        module, _, name = self.place.partition(".")
        constant: Any = getattr(import_module(f"explorer.frontends.zoo.{module}"), name)
        architecture = constant() if isinstance(constant, type) else constant
        (replace(architecture, layered=True) if self.layered else architecture)(net)


@dataclass(frozen=True, slots=True)
class Built:
    """A model written in the layer vocabulary."""

    architecture: Architecture

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """Return the graph without its weights, and the weights by name."""
        from explorer.frontends.zoo.onnx_graphs import OnnxLayers

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

    It is a constant of a module of the zoo, which is imported on demand: `zoo:small_moe` is
    `SMALL_MOE` of `gated`.
    """

    module: str
    name: str

    @property
    def flow(self) -> Flow:
        """The model at its size."""
        home = import_module(f"explorer.frontends.zoo.{self.module}")
        flow: Flow = getattr(home, self.name.upper())
        return flow

    def model(self, seed: int, bounds: Bounds | None) -> Model:
        """Trace the model."""
        from explorer.frontends.python.trace import Traced

        return Traced(self._function(seed)).model(self.flow.inputs, bounds)

    def graph(self, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """Raise BadOption: the model has no ONNX form."""
        raise BadOption(
            f"{self.name} (seed {seed}) is written in Python, and has no ONNX form",
            where=self.name,
            try_="explorer.load",
        )

    def reference(self, inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Compute the outputs of the same code in plain NumPy."""
        import numpy as np

        outputs = self._function(seed)(**inputs)
        return {name: np.asarray(value) for name, value in outputs.items()}

    def _function(self, seed: int) -> Callable[..., Any]:
        return self.flow.function({w.name: w.drawn(seed) for w in self.flow.weights})


# Entries.


def _sizes(
    name: str, paper: str, full: Architecture, weights: int, small: Architecture, fewer: int
) -> tuple[Entry, Entry]:
    """Return the entries of a model and of its reduced form."""
    return (
        Entry(name, Built(full), paper, weights),
        Entry(f"{SMALL}{name}", Built(small), paper, fewer),
    )


def _flows(name: str, paper: str, module: str, weights: int, fewer: int) -> tuple[Entry, Entry]:
    """Return the entries of a model with control flow and of its reduced form."""
    return (
        Entry(name, Written(module, name), paper, weights),
        Entry(f"{SMALL}{name}", Written(module, f"{SMALL}{name}"), paper, fewer),
    )


SHIPPED = (
    Entry("alexnet", Light("light_bvlc_alexnet.onnx"), "Krizhevsky et al. 2012", 60_965_224),
    Entry("densenet121", Light("light_densenet121.onnx"), "Huang et al. 2017", 8_146_152),
    Entry("inception_v1", Light("light_inception_v1.onnx"), "Szegedy et al. 2015", 6_998_552),
    Entry("inception_v2", Light("light_inception_v2.onnx"), "Ioffe and Szegedy 2015", 11_234_792),
    Entry("resnet50", Light("light_resnet50.onnx"), "He et al. 2016", 25_610_152),
    Entry("shufflenet", Light("light_shufflenet.onnx"), "Zhang et al. 2018", 1_420_152),
    Entry("squeezenet", Light("light_squeezenet.onnx"), "Iandola et al. 2016", 1_235_496),
    Entry("vgg19", Light("light_vgg19.onnx"), "Simonyan and Zisserman 2015", 143_667_240),
    Entry("zfnet", Light("light_zfnet512.onnx"), "Zeiler and Fergus 2014", 87_250_536),
)

WELDER = (  # the models of the Welder paper, section 5.1
    *_sizes(
        "bert",
        "Devlin et al. 2019",
        Named("transformers.Bert"),
        108_595_200,
        Named("transformers.SMALL_BERT"),
        41_984,
    ),
    *_sizes(
        "bsrn", "Li et al. 2022", Named("images.Bsrn"), 352_400, Named("images.SMALL_BSRN"), 3_200
    ),
    *_sizes(
        "conformer",
        "Gulati et al. 2020",
        Named("transformers.Conformer"),
        79_036_416,
        Named("transformers.SMALL_CONFORMER"),
        52_096,
    ),
    *_sizes(
        "mobilenetv2",
        "Sandler et al. 2018",
        Named("images.MobileNetV2"),
        3_538_984,
        Named("images.SMALL_MOBILENETV2"),
        9_546,
    ),
    *_sizes(
        "mobilevit",
        "Mehta and Rastegari 2022",
        Named("transformers.MobileVit"),
        5_590_888,
        Named("transformers.SMALL_MOBILEVIT"),
        13_394,
    ),
    *_sizes(
        "nafnet",
        "Chen et al. 2022",
        Named("images.NafNet"),
        288_691,
        Named("images.SMALL_NAFNET"),
        1_687,
    ),
    *_sizes(
        "nerf",
        "Mildenhall et al. 2020",
        Named("images.Nerf"),
        25_155,
        Named("images.SMALL_NERF"),
        595,
    ),
    *_sizes(
        "restormer",
        "Zamir et al. 2022",
        Named("images.Restormer"),
        26_126_644,
        Named("images.SMALL_RESTORMER"),
        58_983,
    ),
    *_sizes(
        "swin",
        "Liu et al. 2021",
        Named("transformers.Swin"),
        88_607_456,
        Named("transformers.SMALL_SWIN"),
        41_858,
    ),
    *_sizes(
        "vit",
        "Dosovitskiy et al. 2021",
        Named("transformers.Vit"),
        22_878_952,
        Named("transformers.SMALL_VIT"),
        32_330,
    ),
)

# The models of the Rammer paper, section 5.1, and of its tutorial. AlexNet is one of the
# SHIPPED models: it reads 224 by 224 pixels, in the paper 227 by 227.
RAMMER = (
    *_sizes(
        "resnext29",
        "Xie et al. 2017",
        Named("images.ResNext"),
        68_255_690,
        Named("images.SMALL_RESNEXT29"),
        12_802,
    ),
    *_sizes(
        "nasnet",
        "Zoph et al. 2018",
        Named("searched.NasNet"),
        3_365_290,
        Named("searched.SMALL_NASNET"),
        25_868,
    ),
    *_sizes(
        "deepspeech2",
        "Amodei et al. 2016",
        Named("recurrent.DeepSpeech2"),
        6_498_941,
        Named("recurrent.SMALL_DEEPSPEECH2"),
        5_219,
    ),
    *_sizes(
        "lstm",
        "Ma et al. 2020, the tutorial",
        Named("recurrent.TUTORIAL"),
        4_202_496,
        Named("recurrent.SMALL_TUTORIAL"),
        6_336,
    ),
    *_sizes(
        "lstm_tc",
        "Hochreiter and Schmidhuber 1997",
        Named("recurrent.CLASSIFIER"),
        5_255_690,
        Named("recurrent.SMALL_CLASSIFIER"),
        8_533,
    ),
    *_sizes(
        "seq2seq",
        "Sutskever et al. 2014",
        Named("recurrent.Seq2Seq"),
        1_579_008,
        Named("recurrent.SMALL_SEQ2SEQ"),
        10_560,
    ),
)

# The models with loops, branches and recursion of the Cocktailer paper, section 6, a beam search
# over its decoder, and a layer of experts.
GRINDER = (
    *_flows("nasrnn", "Zoph and Le 2017", "loops", 1_048_576, 4_096),
    *_flows("looped_lstm", "Hochreiter and Schmidhuber 1997", "loops", 5_253_120, 6_336),
    *_flows("attention_decoding", "Vaswani et al. 2017", "decoding", 147_456, 1_536),
    *_flows("seq2seq_decoder", "Sutskever et al. 2014", "decoding", 2_473_173, 3_333),
    *_flows("beam_search", "Graves 2012", "decoding", 2_473_173, 3_333),
    *_flows("blockdrop", "Wu et al. 2018", "gated", 538_393, 15_806),
    *_flows("skipnet", "Wang et al. 2018", "gated", 44_822_789, 20_339),
    *_flows("recursive_autoencoder", "Socher et al. 2011", "loops", 524_800, 528),
    *_flows("moe", "Fedus et al. 2022", "gated", 4_206_592, 8_704),
    *_flows("llama", "Touvron et al. 2023", "decoding", 24_407_712, 19_424),
)

# Files of this package, which compile within seconds; their names begin with "tiny_".
SMALLEST = (
    Entry("tiny_bert", Filed("tiny_bert.onnx"), "Devlin et al. 2019", 163_590),
    Entry("tiny_gpt2", Filed("tiny_gpt2.onnx"), "Radford et al. 2019", 195_976),
    Entry("tiny_llama", Filed("tiny_llama.onnx"), "Touvron et al. 2023", 154_957),
    Entry("tiny_lstm", Filed("tiny_lstm.onnx"), "Hochreiter and Schmidhuber 1997", 16_928),
    Entry("tiny_mobilenetv2", Filed("tiny_mobilenetv2.onnx"), "Sandler et al. 2018", 150_658),
    Entry("tiny_resnet18", Filed("tiny_resnet18.onnx"), "He et al. 2016", 21_296),
    Entry("tiny_skip", Filed("tiny_skip.onnx"), "a branch on what was computed", 2_113),
    Entry("tiny_vit", Filed("tiny_vit.onnx"), "Dosovitskiy et al. 2021", 149_285),
    Entry("tiny_while", Filed("tiny_while.onnx"), "a loop that a value ends", 1_058),
)

ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {entry.name: entry for entry in (*SMALLEST, *SHIPPED, *WELDER, *RAMMER, *GRINDER)}
)


def _layered() -> Iterator[Entry]:
    for entry in RAMMER:
        match entry.source:
            case Built(Named() as cells) if entry.name.removeprefix(SMALL) in OF_CELLS:
                source = Built(replace(cells, layered=True))
                yield replace(entry, name=f"{LAYERED}{entry.name}", source=source)


# The same models in forms that other runtimes run faster; they are not listed.
OTHER_FORMS: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _layered()})
