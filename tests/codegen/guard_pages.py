"""Kernels between pages that nobody may touch: an access outside of any buffer ends the process.

`python -m tests.codegen.guard_pages` reads names of families, one a line. It runs the cases of each
with the end, and then with the beginning, of every buffer at such a page; it says which one it runs
before it does, and `DONE` where none of a family ended it.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from explorer.codegen.build import KernelCode, build_kernel
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, evaluate_dim, evaluate_shape
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Kernel
from explorer.tile.lowering.packing import pack_constant
from tests.tile.programs import HERE

PAGE = mmap.PAGESIZE
NONE = 0  # PROT_NONE
SIDES = ("end", "begin")
DONE = "every case"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(slots=True)
class Pages:
    """Arrays that end, or begin, exactly at a page that may not be touched."""

    side: str
    kept: list[mmap.mmap] = field(default_factory=list)

    def place(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array beside such a page; there is one on its other side too."""
        room = -(-max(array.nbytes, 1) // PAGE) * PAGE
        block = mmap.mmap(-1, room + 2 * PAGE)
        self.kept.append(block)
        start = ctypes.addressof(ctypes.c_char.from_buffer(block))
        for page in (start, start + PAGE + room):
            if _libc.mprotect(page, PAGE, NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        offset = PAGE + (room - array.nbytes if self.side == "end" else 0)
        flat = np.frombuffer(block, array.dtype, array.size, offset)
        flat[:] = array.ravel()
        return flat


def run_between_guards(
    kernel: Kernel,
    tiling: Tiling,
    arrays: Mapping[str, np.ndarray],
    side: str,
    sizes: Mapping[str, int],
    env: ShapeEnv = ShapeEnv(),
) -> np.ndarray:
    """The kernel's output; the process ends with SIGSEGV where it leaves a buffer."""
    pages, code = Pages(side), build_kernel(kernel, tiling, env, HERE)
    shape = evaluate_shape(kernel.shape(kernel.output), sizes)
    out = pages.place(np.zeros(prod(shape), numpy_dtype(kernel.dtype(kernel.output))))
    block = list(_block(pages, code, kernel, arrays, out, sizes))
    args = pages.place(np.array(block, np.int64))
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function(code.address)(0, code.tasks(sizes), args.ctypes.data)
    return out.reshape(shape)


def _block(
    pages: Pages,
    code: KernelCode,
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray],
    out: np.ndarray,
    sizes: Mapping[str, int],
) -> Iterator[int]:
    """The argument block, every buffer of it between guards."""
    for a in code.arguments:
        match a.kind:
            case "tensor" if a.name == kernel.output:
                yield out.ctypes.data + a.begin_bytes(sizes)
            case "tensor":
                yield pages.place(arrays[a.name]).ctypes.data + a.begin_bytes(sizes)
            case "packed":
                assert a.packing is not None
                yield pages.place(pack_constant(a.packing, arrays[a.name])).ctypes.data
            case "table":
                yield pages.place(np.array(a.values, np.int64)).ctypes.data
            case "scratch":
                count = evaluate_dim(a.elements, sizes) * a.item_bytes
                yield pages.place(np.full(count, 255, np.uint8)).ctypes.data
            case _:
                yield sizes[a.name]


def main(families: Iterable[str]) -> None:
    """Every case of each; the name of one stands on a line of its own before it runs."""
    from tests.codegen.guarded_cases import FAMILIES  # imports this module

    for family in families:
        for case in FAMILIES[family.strip()]():
            for side in SIDES:
                print(f"{case.name} at the {side}", flush=True)
                case.check(side)
        print(DONE, flush=True)


if __name__ == "__main__":
    main(sys.stdin)
