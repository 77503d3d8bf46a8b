"""The weights of a decoder from the tensors of its files, by its family's table of names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod

import numpy as np

from explorer.errors import BadModelFile
from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.families import Family
from explorer.frontends.decoders.gguf_blocks import decode
from explorer.frontends.decoders.gguf_file import GgufTensor
from explorer.frontends.decoders.packed_matrix import PackedMatrix, packed_matrix
from explorer.ir.program import Constant, DerivedConstant
from explorer.ir.types import Tensor
from explorer.process.budget import check_room

Weight = Constant | PackedMatrix
FileTensor = np.ndarray | GgufTensor
MATRICES = frozenset(("query", "key", "value", "answer", "gate", "up", "down"))


def weights_of(
    family: Family, config: DecoderConfig, tensors: Mapping[str, FileTensor]
) -> dict[str, Weight]:
    """Return the weights by our names: views of the files, or computed from them when read."""
    shapes = config.weights
    sources = {name: _source(family, name, tensors) for name in shapes}
    copied = [n for n, (theirs, _) in sources.items() if _is_copied(tensors[theirs])]
    check_room(sum(4 * prod(shapes[n]) for n in copied), "the weights as float32")
    return {n: _weight(family, n, shapes, tensors[t], t, ps) for n, (t, ps) in sources.items()}


def tensor_names(
    family: Family, config: DecoderConfig, tensors: Mapping[str, FileTensor]
) -> dict[str, str]:
    """Return the file's name of each weight; ours follows where a tensor holds several."""
    sources = {name: _source(family, name, tensors) for name in config.weights}
    return {
        name: theirs if len(parts) == 1 else f"{theirs}.{_parts(name)[1]}"
        for name, (theirs, parts) in sources.items()
    }


def _is_copied(tensor: FileTensor) -> bool:
    return isinstance(tensor, np.ndarray) and tensor.dtype != np.float32


def _source(
    family: Family, name: str, tensors: Mapping[str, FileTensor]
) -> tuple[str, tuple[str, ...]]:
    """Return the tensor that holds a weight, and the weights whose rows it holds in order."""
    layer, base, is_bias = _parts(name)
    key = next(k for k in family.names if k == base or base in k.split("+"))
    theirs = family.names[key].format(n=layer)
    if is_bias:
        theirs = f"{theirs.removesuffix('weight')}bias"
    if theirs not in tensors:  # the file of a model without a head
        theirs = theirs.partition(".")[2]
    if theirs not in tensors:
        full = family.names[key].format(n=layer)
        raise BadModelFile(f"the files have no tensor for {name!r}, such as {full!r}", where=full)
    prefix, suffix = f"{layer}." if layer else "", ".bias" if is_bias else ""
    return theirs, tuple(f"{prefix}{part}{suffix}" for part in key.split("+"))


def _parts(name: str) -> tuple[str, str, bool]:
    """Split `3.query.bias` into its layer, its weight and if it is a bias."""
    layer, _, base = name.partition(".")
    if not layer.isdecimal():
        layer, base = "", name
    return layer, base.removesuffix(".bias"), base.endswith(".bias")


def _weight(
    family: Family,
    name: str,
    shapes: Mapping[str, tuple[int, ...]],
    tensor: FileTensor,
    theirs: str,
    parts: tuple[str, ...],
) -> Weight:
    """Return a weight of a tensor that holds the rows of `parts`."""
    base = _parts(name)[1]
    is_transposed = family.transposed and base in MATRICES and len(tensor.shape) == 2
    shape = tensor.shape[::-1] if is_transposed else tensor.shape
    rows = [shapes[part][0] for part in parts]
    expected = (sum(rows), *shapes[name][1:])
    if shape != expected:
        raise BadModelFile(
            f"{theirs} has the shape {list(shape)}, and the configuration means {list(expected)}",
            where=theirs,
        )
    first = sum(rows[: parts.index(name)])
    rows_of_it = slice(first, first + shapes[name][0])
    if isinstance(tensor, GgufTensor):
        assert not is_transposed, "no family of GGUF has transposed matrices"
        weight = _of_gguf(tensor.rows(rows_of_it), can_pack=base != "positions")
    else:
        weight = _of_array(tensor, is_transposed, rows_of_it)
    if family.norm_offset and base.endswith("norm"):
        assert isinstance(weight, Constant), "vectors are not packed"
        return Constant(weight.array + np.float32(family.norm_offset))
    return weight


def _of_gguf(tensor: GgufTensor, can_pack: bool) -> Weight:
    """Return a tensor packed if it can be, as a view of the file, or decoded when it is read."""
    packed = packed_matrix(tensor.kind, tensor.data, tensor.shape) if can_pack else None
    if packed is not None:
        return packed
    if tensor.kind.name == "F32" and tensor.array.flags.aligned:
        return Constant(tensor.array)
    decoded = partial(decode, tensor.kind, shape=tensor.shape)
    return DerivedConstant((Constant(tensor.data),), Tensor(tensor.shape, "float32"), decoded)


def _of_array(array: np.ndarray, is_transposed: bool, rows: slice) -> Constant:
    """Return rows of a matrix as a view of the file, or converted to float32 when they are read."""
    if array.dtype == np.float32 and array.flags.aligned and not is_transposed:
        return Constant(array[rows])

    def convert(array: np.ndarray) -> np.ndarray:
        return as_float32((array.T if is_transposed else array)[rows])

    inner = array.shape[:-1] if is_transposed else array.shape[1:]
    kind = Tensor((rows.stop - rows.start, *inner), "float32")
    return DerivedConstant((Constant(array),), kind, convert)


def as_float32(array: np.ndarray) -> np.ndarray:
    """Return numbers as float32; those of uint16 are the bits of bfloat16."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32, copy=False)
