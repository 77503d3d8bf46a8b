"""`ironworks quantize`: an ONNX file with weights of a few bits, and the error of each layer."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from explorer.cli.arguments import Parser, parse_flags
from explorer.cli.compile_model import read_inputs
from explorer.cli.terminal import print_answer, progress_line, step_progress
from explorer.errors import BadOption
from explorer.frontends.load import load
from explorer.quantization.low_bit_matrix import NF4
from explorer.quantization.quantize import quantize
from explorer.quantization.save_quantized import save_quantized
from explorer.views.answer import Answer

BY_COLUMN = "column"


def main(argv: Sequence[str]) -> int:
    """Quantize a model and write its file."""
    parser = Parser(
        "quantize",
        "An ONNX file whose products with constant matrices read weights of a few bits in blocks, "
        "as MatMulNBits or MatMulBnb4 of onnxruntime, and the error of each layer.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file")
    add("-o", "--output", required=True, metavar="FILE", help="the new ONNX file")
    add("--bits", type=int, default=4, metavar="4", help="2, 4 or 8 (default 4)")
    add("--nf4", action="store_true", help="four bits that number quantiles of weights")
    add(
        "--block",
        default="32",
        metavar="32",
        help=f"elements that share a scale, or {BY_COLUMN}: one scale for each (default 32)",
    )
    add("--keep", action="append", default=[], metavar="NAME", help="a product left in float32")
    add("--zero-points", action="store_true", help="a zero point for each block")
    add("--inputs", metavar="FILE.npz", help="inputs, for the error of each layer's output")
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Quantize the model, write the file, and return the errors."""
    with progress_line(f"reading {flags.model}") as say:
        model = load(flags.model)
        names = [p.name for p in model.program.main.params]
        low = quantize(
            model,
            NF4 if flags.nf4 else f"int{flags.bits}",
            _block(flags.block),
            flags.keep,
            symmetric=not flags.zero_points,
            inputs=() if flags.inputs is None else read_inputs(flags.inputs, names),
            progress=step_progress(say),
        )
        save_quantized(low, Path(flags.model), Path(flags.output))
    quantization = low.quantization
    assert quantization is not None, "a quantized model says how"
    data = {
        "model": flags.model,
        "file": flags.output,
        "bytes_before": quantization.bytes_before,
        "bytes_after": quantization.bytes_after,
        "layers": quantization.rows(),
    }
    return Answer(data, f"{quantization}\nwritten to {flags.output}")


def _block(text: str) -> int | None:
    if text == BY_COLUMN:
        return None
    try:
        return int(text)
    except ValueError:
        raise BadOption(
            f"--block takes a number or {BY_COLUMN}, not {text!r}", where="--block", actual=text
        ) from None
