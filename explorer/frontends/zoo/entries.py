"""Entries of the zoo: name, source, paper, and number of weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from explorer.frontends.zoo.models import (
    bert,
    bsrn,
    conformer,
    deepspeech2,
    lstm,
    mobilenetv2,
    mobilevit,
    nafnet,
    nasnet,
    nerf,
    resnext29,
    restormer,
    seq2seq,
    swin,
    vit,
)
from explorer.frontends.zoo.source import Architecture, Built, Filed, Light, Written

LAYERED = "layered_"  # prefix of models with an LSTM operator in place of a layer's cells
SMALL = "small_"  # prefix of the reduced models: every kind of block, once or twice


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the zoo."""

    name: str
    source: Light | Filed | Built | Written
    paper: str
    weights: int


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
        Entry(name, Written(module), paper, weights),
        Entry(f"{SMALL}{name}", Written(module, reduced=True), paper, fewer),
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
    *_sizes("bert", "Devlin et al. 2019", bert.Bert(), 108_595_200, bert.SMALL, 41_984),
    *_sizes("bsrn", "Li et al. 2022", bsrn.Bsrn(), 352_400, bsrn.SMALL, 3_200),
    *_sizes(
        "conformer",
        "Gulati et al. 2020",
        conformer.Conformer(),
        79_036_416,
        conformer.SMALL,
        52_096,
    ),
    *_sizes(
        "mobilenetv2",
        "Sandler et al. 2018",
        mobilenetv2.MobileNetV2(),
        3_538_984,
        mobilenetv2.SMALL,
        9_546,
    ),
    *_sizes(
        "mobilevit",
        "Mehta and Rastegari 2022",
        mobilevit.MobileVit(),
        5_590_888,
        mobilevit.SMALL,
        13_394,
    ),
    *_sizes("nafnet", "Chen et al. 2022", nafnet.NafNet(), 288_691, nafnet.SMALL, 1_687),
    *_sizes("nerf", "Mildenhall et al. 2020", nerf.Nerf(), 25_155, nerf.SMALL, 595),
    *_sizes(
        "restormer", "Zamir et al. 2022", restormer.Restormer(), 26_126_644, restormer.SMALL, 58_983
    ),
    *_sizes("swin", "Liu et al. 2021", swin.Swin(), 88_607_456, swin.SMALL, 41_858),
    *_sizes("vit", "Dosovitskiy et al. 2021", vit.Vit(), 22_878_952, vit.SMALL, 32_330),
)

# The models of the Rammer paper, section 5.1, and of its tutorial. AlexNet is one of the
# SHIPPED models: it reads 224 by 224 pixels, in the paper 227 by 227.
RAMMER = (
    *_sizes(
        "resnext29", "Xie et al. 2017", resnext29.ResNext(), 68_255_690, resnext29.SMALL, 12_802
    ),
    *_sizes("nasnet", "Zoph et al. 2018", nasnet.NasNet(), 3_365_290, nasnet.SMALL, 25_868),
    *_sizes(
        "deepspeech2",
        "Amodei et al. 2016",
        deepspeech2.DeepSpeech2(),
        6_498_941,
        deepspeech2.SMALL,
        5_219,
    ),
    *_sizes("lstm", "Ma et al. 2020, the tutorial", lstm.TUTORIAL, 4_202_496, lstm.SMALL, 6_336),
    *_sizes(
        "lstm_tc",
        "Hochreiter and Schmidhuber 1997",
        lstm.CLASSIFIER,
        5_255_690,
        lstm.SMALL_CLASSIFIER,
        8_533,
    ),
    *_sizes(
        "seq2seq", "Sutskever et al. 2014", seq2seq.Seq2Seq(), 1_579_008, seq2seq.SMALL, 10_560
    ),
)

# The models with loops, branches and recursion of the Cocktailer paper, section 6, a beam search
# over its decoder, and a layer of experts.
GRINDER = (
    *_flows("nasrnn", "Zoph and Le 2017", "nasrnn", 1_048_576, 4_096),
    *_flows("looped_lstm", "Hochreiter and Schmidhuber 1997", "looped_lstm", 5_253_120, 6_336),
    *_flows("attention_decoding", "Vaswani et al. 2017", "attention", 147_456, 1_536),
    *_flows("seq2seq_decoder", "Sutskever et al. 2014", "decoder", 2_473_173, 3_333),
    *_flows("beam_search", "Graves 2012", "beam", 2_473_173, 3_333),
    *_flows("blockdrop", "Wu et al. 2018", "blockdrop", 538_393, 15_806),
    *_flows("skipnet", "Wang et al. 2018", "skipnet", 44_822_789, 20_339),
    *_flows("recursive_autoencoder", "Socher et al. 2011", "recursive_autoencoder", 524_800, 528),
    *_flows("moe", "Fedus et al. 2022", "moe", 4_206_592, 8_704),
    *_flows("llama", "Touvron et al. 2023", "llama", 24_407_712, 19_424),
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
            case Built(lstm.Lstm() | seq2seq.Seq2Seq() as cells):
                source = Built(replace(cells, layered=True))
                yield replace(entry, name=f"{LAYERED}{entry.name}", source=source)


# The same models in forms that other runtimes run faster; they are not listed.
OTHER_FORMS: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _layered()})
