"""The weights of a decoder from the tensors of its files, by its family's table of names."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from explorer.errors import BadModelFile
from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.families import Family
from explorer.frontends.decoders.packed_matrix import PackedMatrix
from explorer.process.budget import check_room

Weight = np.ndarray | PackedMatrix
MATRICES = frozenset(("query", "key", "value", "answer", "gate", "up", "down"))


def weights_of(
    family: Family, config: DecoderConfig, tensors: Mapping[str, Weight]
) -> dict[str, Weight]:
    """Return the weights by our names: views of the files where they hold float32."""
    shapes = config.weights
    sources = {name: _source(family, name, tensors) for name in shapes}
    copied = [n for n, (theirs, _) in sources.items() if _is_copied(tensors[theirs])]
    check_room(sum(4 * prod(shapes[n]) for n in copied), "the weights as float32")
    return {n: _weight(family, n, shapes, tensors[t], t, ps) for n, (t, ps) in sources.items()}


def tensor_names(
    family: Family, config: DecoderConfig, tensors: Mapping[str, Weight]
) -> dict[str, str]:
    """Return the file's name of each weight; ours follows where a tensor holds several."""
    sources = {name: _source(family, name, tensors) for name in config.weights}
    return {
        name: theirs if len(parts) == 1 else f"{theirs}.{_parts(name)[1]}"
        for name, (theirs, parts) in sources.items()
    }


def _is_copied(tensor: Weight) -> bool:
    return isinstance(tensor, np.ndarray) and tensor.dtype != np.float32


def _source(
    family: Family, name: str, tensors: Mapping[str, Weight]
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
    tensor: Weight,
    theirs: str,
    parts: tuple[str, ...],
) -> Weight:
    """Return a weight of a tensor that holds the rows of `parts`."""
    base = _parts(name)[1]
    if family.transposed and base in MATRICES and len(tensor.shape) == 2:
        assert isinstance(tensor, np.ndarray), "packed files hold no transposed matrices"
        tensor = tensor.T
    rows = [shapes[part][0] for part in parts]
    expected = (sum(rows), *shapes[name][1:])
    if tensor.shape != expected:
        raise BadModelFile(
            f"{theirs} has the shape {list(tensor.shape)}, and the configuration means "
            f"{list(expected)}",
            where=theirs,
        )
    first = sum(rows[: parts.index(name)])
    if isinstance(tensor, PackedMatrix):
        return tensor.rows(first, first + shapes[name][0])
    array = as_float32(tensor[first : first + shapes[name][0]])
    if family.norm_offset and base.endswith("norm"):
        array = array + np.float32(family.norm_offset)
    return array


def as_float32(array: np.ndarray) -> np.ndarray:
    """Return numbers as float32; those of uint16 are the bits of bfloat16.

    Aligned float32 is returned as it is. Otherwise the elements are immutable bytes, so that a
    program can hold them without another copy.
    """
    if array.dtype == np.float32 and array.flags.aligned:
        return array
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    elements = array.astype(np.float32).tobytes()
    return np.frombuffer(elements, np.float32).reshape(array.shape)
