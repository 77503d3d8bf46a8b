"""Constants packed ahead for the micro-kernels that read them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernels.forms import ELEMENTS_OF_BYTE, in_cells
from explorer.ir.program import Constant
from explorer.ir.tile_program import Packing


def pack_constant(packing: Packing, array: np.ndarray) -> np.ndarray:
    """Pack a constant for its micro-kernel: [batch..., columns / lanes, depth, lanes].

    There are zeros past the last column. Small integers are in groups along the depth, with zeros
    to the end of the last; `in_cells` says how a group lies. The result is aligned to 64 bytes.
    """
    source_dtype, group = numpy_dtype(packing.dtype), packing.group
    flat = np.ascontiguousarray(array, source_dtype).reshape(-1)[packing.offset :]
    of_byte = ELEMENTS_OF_BYTE.get(packing.dtype, 1)
    dtype, cells = np.dtype(np.uint8) if of_byte > 1 else source_dtype, group // of_byte
    steps = tuple(s * flat.itemsize for s in packing.strides)
    seen = np.lib.stride_tricks.as_strided(flat, packing.extents, steps, writeable=False)
    lead, columns = packing.extents[: packing.batch], packing.extents[packing.batch]
    inner, lanes = packing.extents[packing.batch + 1 :], packing.lanes
    last, panels = -(-inner[-1] // group) * group, -(-columns // lanes)
    depth, spare = prod(inner[:-1]) * last, 64 // dtype.itemsize
    block = np.zeros(prod(lead) * panels * depth * lanes // of_byte + spare, dtype)
    start = (-block.ctypes.data % 64) // dtype.itemsize
    flat_out = block[start : start + block.size - spare]
    out = flat_out.reshape(prod(lead), panels, depth // group, lanes, cells)
    rows = seen.reshape(prod(lead), columns, *inner)
    for n in range(panels):
        part = rows[:, n * lanes : (n + 1) * lanes]
        if last != inner[-1]:
            part = np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, last - inner[-1])])
        grouped = part.reshape(prod(lead), part.shape[1], depth // group, group)
        out[:, n, :, : part.shape[1]] = in_cells(grouped, packing.dtype).swapaxes(1, 2)
    return flat_out


def packed_constant(packing: Packing, constant: Constant) -> np.ndarray:
    """Return the packed constant, aligned to 64 bytes, cached while it is in use."""
    layout = replace(packing, name="", source="")
    return constant.laid_out(layout, lambda array: pack_constant(packing, array))
