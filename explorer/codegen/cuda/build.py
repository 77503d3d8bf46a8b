"""The source of a kernel's thread block on a GPU; each distinct kernel is printed once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from explorer.codegen.cuda.emitter import STATIC_BYTES, shared_offsets
from explorer.codegen.cuda.expressions import stored_dtype, unprinted
from explorer.codegen.cuda.print import emit
from explorer.codegen.cuda.statements import WARP_THREADS
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.dtypes import DType
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, text_of
from explorer.ir.kernels.rebase import rebased
from explorer.ir.tile_program import Buffer, Grid, TileProgram
from explorer.ir.tile_traversal import threads_of
from explorer.roller.blocks.thread_block import bound_normal, thread_block_steps
from explorer.tile.gpu.operands import together


@dataclass(frozen=True, slots=True)
class Tensor:
    """One flat array of a kernel.

    It is the input or output `name`, called `local` in the canonical kernel, from `offset` elements
    on.
    """

    name: str
    local: str
    dtype: DType
    offset: int = 0


@dataclass(frozen=True, slots=True)
class BlockCode:
    """The source of a thread block under one binding.

    The launch requests `dynamic_bytes` of shared memory; the block takes `shared_bytes` in total.
    `aligned` are the arrays, by local name, that begin at a multiple of a thread's vector load.
    """

    source: str
    tile_program: TileProgram
    tensors: tuple[Tensor, ...]
    grid: int
    threads: int
    shared_bytes: int
    dynamic_bytes: int
    aligned: frozenset[str] = frozenset()

    @property
    def function(self) -> tuple[str, tuple[DType, ...]]:
        """The identity of the code: its text, and the dtypes of its arrays."""
        return self.source, tuple(t.dtype for t in self.tensors)


def print_block(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    block: Tiling | None = None,
    aligned: bool = True,
) -> BlockCode:
    """Return the source of a kernel's thread block under one binding.

    Axes and tensors are named as in the canonical kernel. Without `block` Roller's first is used.
    `aligned`: the caller lets all tensors begin at a multiple of a thread's vector load.

    Raises:
        BadOption: the device has no printed kernels.
        CheckFailed: the kernel has no thread block; the message gives the reason.
    """
    if not device.takes_cuda:
        raise BadOption(f"{device.name} is no GPU that Numba generates code for", where=device.name)
    if device.lanes > WARP_THREADS:
        raise BadOption(
            f"a warp of {device.name} has {device.lanes} lanes, but CUDA code has "
            f"{WARP_THREADS}: it can be planned, but not printed",
            where=device.name,
        )
    bound = bound_normal(kernel, sizes)
    if not bound.computes:
        return _of_nothing(kernel, sizes)
    named, _ = canonical(bound)
    offsets = rebased(bound).offsets
    ends = zip((*named.inputs, *named.outputs), (*bound.inputs, *bound.outputs), strict=True)
    own = dict(ends)
    at_vector_start = (
        n
        for n in own
        if evaluate_dim(offsets.get(own[n], 0), sizes) % together(named.dtype(n)) == 0
    )
    code = _printed(
        _Same(text_of(named), named),
        device,
        env,
        block,
        frozenset(at_vector_start if aligned else ()),
    )
    return BlockCode(
        code.source,
        code.tile_program,
        tuple(
            Tensor(own[t.name], t.local, t.dtype, evaluate_dim(offsets.get(own[t.name], 0), sizes))
            for t in code.tensors
        ),
        code.grid,
        code.threads,
        code.shared_bytes,
        code.dynamic_bytes,
        code.aligned,
    )


def _of_nothing(kernel: Kernel, sizes: Sizes) -> BlockCode:
    """Return the code of a kernel without elements: a grid of no blocks, never launched."""
    tensors = tuple(
        Buffer(f"y{n}", "output", 0, kernel.dtype(out)) for n, out in enumerate(kernel.outputs)
    )
    code = print_tile_program(TileProgram((Grid("_none", "_none", 1, 0),), (), tensors))
    outputs = zip(code.tensors, kernel.outputs, strict=True)
    return replace(code, tensors=tuple(replace(t, name=out) for t, out in outputs))


@dataclass(frozen=True, eq=False, slots=True)
class _Same:
    """A kernel that is compared by its text, which is quick to hash."""

    text: str
    kernel: Kernel

    def __eq__(self, other: object) -> bool:
        """Return True if both kernels have the same text."""
        return isinstance(other, _Same) and other.text == self.text

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash(self.text)


@lru_cache(maxsize=512)
def _printed(
    same: _Same, device: Device, env: ShapeEnv, block: Tiling | None, aligned: frozenset[str]
) -> BlockCode:
    return print_tile_program(
        thread_block_steps(same.kernel, device, env, {}, block)[-1][1], aligned
    )


def print_tile_program(program: TileProgram, aligned: Collection[str] = ()) -> BlockCode:
    """Return the source of a thread block's program.

    `aligned` are the tensors that begin where a vector may be loaded. Raises BadOption if a dtype
    of the program is not printed.
    """
    for b in program.buffers:
        if why := unprinted(b.dtype):
            raise BadOption(f"{b.name} is not printed: {why}", where=b.name)
    tensors = tuple(b for b in program.buffers if b.kind != "scratch")
    names = [b.name for b in tensors]
    grid, threads = prod(int(g.count) for g in program.grid), max(1, threads_of(program.body))
    used = shared_offsets(program)[-1]
    dynamic = used if used > STATIC_BYTES else 0
    launch = f"kernel[{grid}, {threads}{f', 0, {dynamic}' if dynamic else ''}]({', '.join(names)})"
    return BlockCode(
        emit(program, names, launch, aligned),
        program,
        tuple(Tensor(b.name, b.name, stored_dtype(b.dtype)) for b in tensors),
        grid,
        threads,
        used,
        dynamic,
        frozenset(aligned),
    )
