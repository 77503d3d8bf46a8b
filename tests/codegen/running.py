"""Runs one generated kernel by its address, with guarded output and poisoned scratch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from math import prod

import numpy as np

from explorer.codegen.build import build_kernel
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, evaluate_dim, evaluate_shape
from explorer.ir.kernel import Kernel
from explorer.tile.lowering.packing import pack_constant
from tests.tile.programs import HERE

GUARD = 64


def aligned(items: int, dtype: str, value: float) -> np.ndarray:
    """An array that starts on a cache line."""
    size = np.dtype(dtype).itemsize
    block = np.full(items + 128 // size, value, dtype)
    start = (-block.ctypes.data % 64) // size
    return block[start : start + items]


def run_kernel(
    kernel: Kernel,
    tiling: Tiling,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int] | None = None,
    env: ShapeEnv = ShapeEnv(),
    device: Device = HERE,
) -> np.ndarray:
    """The kernel's one output; fails where anything outside of it was written."""
    (found,) = run_outputs(kernel, tiling, arrays, sizes, env, device)
    return found


def run_outputs(
    kernel: Kernel,
    tiling: Tiling,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int] | None = None,
    env: ShapeEnv = ShapeEnv(),
    device: Device = HERE,
) -> tuple[np.ndarray, ...]:
    """The kernel's outputs, each in the memory of the input that it updates if there is one; fails
    where anything outside of them was written.
    """
    sizes = sizes or {}
    code = build_kernel(kernel, tiling, env, device)
    taken = {name: output for output, name in kernel.updates}
    guarded = {n: _guarded(kernel, n, arrays, sizes) for n in kernel.outputs}
    before = {n: g.copy() for n, g in guarded.items()}
    keep: list[np.ndarray] = []
    block: list[int] = []
    for a in code.arguments:
        match a.kind:
            case "tensor" if taken.get(a.name, a.name) in guarded:
                keep.append(guarded[taken.get(a.name, a.name)][GUARD:])
            case "tensor":
                keep.append(np.ascontiguousarray(arrays[a.name]))
            case "packed":
                assert a.packing is not None
                keep.append(pack_constant(a.packing, arrays[a.name]))
            case "table":
                keep.append(np.array(a.values, np.int64))
            case "scratch":
                items = evaluate_dim(a.elements, sizes) * a.item_bytes // 4
                keep.append(aligned(items + 16, "float32", np.nan))
            case _:
                block.append(sizes[a.name])
                continue
        block.append(keep[-1].ctypes.data + a.begin_bytes(sizes))
    args = np.array(block, np.int64)
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function(code.address)(0, code.tasks(sizes), args.ctypes.data)
    out = []
    for name, found in guarded.items():
        shape = evaluate_shape(kernel.shape(name), sizes)
        for part in (slice(None, GUARD), slice(GUARD + prod(shape), None)):
            nan = kernel.dtype(name).startswith("float")
            assert np.array_equal(found[part], before[name][part], equal_nan=nan)
        out.append(found[GUARD : GUARD + prod(shape)].reshape(shape))
    return tuple(out)


def _guarded(
    kernel: Kernel, name: str, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> np.ndarray:
    """Room for an output between guards, with what it is written over."""
    dtype = kernel.dtype(name)
    count = prod(evaluate_shape(kernel.shape(name), sizes))
    made = np.full(count + 2 * GUARD, np.nan if dtype.startswith("float") else 77, dtype)
    taken = kernel.updated(name)
    if taken is not None:
        made[GUARD : GUARD + count] = arrays[taken].ravel()
    return made
