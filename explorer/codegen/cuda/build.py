"""From a kernel to the source of its thread block on a GPU, each different one once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from explorer.codegen.cuda.narrow import held, unprinted
from explorer.codegen.cuda.print import emit
from explorer.codegen.cuda.shared_arrays import STATIC_BYTES, beginnings
from explorer.codegen.cuda.statements.reductions import WARP_THREADS
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Block
from explorer.ir.dtypes import DType
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, text_of
from explorer.ir.kernels.rebase import rebased
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.tile_programs.elements import Buffer
from explorer.ir.tile_programs.program import Grid, TileProgram
from explorer.ir.tile_programs.traversal import threads_of
from explorer.roller.blocks.thread_block import bound_normal, thread_block_steps
from explorer.tile.gpu.operands import together


@dataclass(frozen=True, slots=True)
class Tensor:
    """One array of a kernel, flat: the input or output `name` of the kernel under its canonical
    name, from `offset` elements on.
    """

    name: str
    local: str
    dtype: DType
    offset: int = 0


@dataclass(frozen=True, slots=True)
class BlockCode:
    """The source of a thread block under one binding; `dynamic_bytes` of shared memory are asked
    for where it is launched, in all it takes `shared_bytes`. `aligned`: the arrays, by their local
    names, that begin at a multiple of what a thread loads at once.
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
        """What tells it from other code: its text, and what its arrays hold."""
        return self.source, tuple(t.dtype for t in self.tensors)


def print_block(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    block: Block | None = None,
    aligned: bool = True,
) -> BlockCode:
    """The source of a thread block of a kernel under one binding, its axes and tensors named as in
    the canonical kernel; or of Roller's first. `aligned`: whoever launches it lets all tensors
    begin at a multiple of what a thread loads at once.

    Raises BadOption or CheckFailed where there is none, with the reason.
    """
    if not device.takes_cuda:
        raise BadOption(f"{device.name} is no GPU that Numba prints code for", where=device.name)
    if device.lanes > WARP_THREADS:
        raise BadOption(
            f"a warp of {device.name} has {device.lanes} lanes, of which CUDA's code has "
            f"{WARP_THREADS}: it is planned, and not printed",
            where=device.name,
        )
    bound = bound_normal(kernel, sizes)
    if not bound.computes:
        return _of_nothing(kernel, sizes)
    named, _ = canonical(bound)
    offsets = rebased(bound).offsets
    ends = zip((*named.inputs, *named.outputs), (*bound.inputs, *bound.outputs), strict=True)
    own = dict(ends)
    whole = (
        n
        for n in own
        if evaluate_dim(offsets.get(own[n], 0), sizes) % together(named.dtype(n)) == 0
    )
    code = _printed(
        _Same(text_of(named), named), device, env, block, frozenset(whole if aligned else ())
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
    """Of a kernel that makes no elements: a grid of no blocks, which is never launched."""
    tensors = tuple(
        Buffer(f"y{n}", "output", 0, kernel.dtype(out)) for n, out in enumerate(kernel.outputs)
    )
    code = printed(TileProgram((Grid("_none", "_none", 1, 0),), (), tensors))
    outputs = zip(code.tensors, kernel.outputs, strict=True)
    return replace(code, tensors=tuple(replace(t, name=out) for t, out in outputs))


@dataclass(frozen=True, eq=False, slots=True)
class _Same:
    """A kernel that is known by its text, which hashes in no time."""

    text: str
    kernel: Kernel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=512)
def _printed(
    same: _Same, device: Device, env: ShapeEnv, block: Block | None, aligned: frozenset[str]
) -> BlockCode:
    return printed(thread_block_steps(same.kernel, device, env, {}, block)[-1][1], aligned)


def printed(program: TileProgram, aligned: Collection[str] = ()) -> BlockCode:
    """The source of a thread block's program. BadOption where it is not printed. `aligned`: the
    tensors that begin where several elements may be loaded at once.
    """
    for b in program.buffers:
        if why := unprinted(b.dtype):
            raise BadOption(f"{b.name} is not printed: {why}", where=b.name)
    tensors = tuple(b for b in program.buffers if b.kind != "scratch")
    names = [b.name for b in tensors]
    grid, threads = prod(int(g.count) for g in program.grid), max(1, threads_of(program.body))
    used = beginnings(program)[-1]
    dynamic = used if used > STATIC_BYTES else 0
    launch = f"kernel[{grid}, {threads}{f', 0, {dynamic}' if dynamic else ''}]({', '.join(names)})"
    return BlockCode(
        emit(program, names, launch, aligned),
        program,
        tuple(Tensor(b.name, b.name, held(b.dtype)) for b in tensors),
        grid,
        threads,
        used,
        dynamic,
        frozenset(aligned),
    )
