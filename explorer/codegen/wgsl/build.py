"""The shader of a kernel on a device; each distinct kernel is printed once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from explorer.codegen.wgsl.print import (
    ShaderOptions,
    emit,
    grid_of,
    in_storage,
    workgroup_memory_bytes,
)
from explorer.codegen.wgsl.types import unprinted, widening
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.dtypes import DType
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, text_of
from explorer.ir.kernels.rebase import rebased
from explorer.ir.tile_program import TileProgram
from explorer.ir.tile_traversal import threads_of
from explorer.plain_text import counted
from explorer.roller.blocks.candidates import cached_grids
from explorer.roller.blocks.thread_block import (
    bound_normal,
    constructed_block,
    thread_block_steps,
)

MOST_WORKGROUP_BYTES = 16_384  # W3C, WebGPU, 3.6.2: maxComputeWorkgroupStorageSize


@dataclass(frozen=True, slots=True)
class ShaderTensor:
    """A tensor of a shader.

    It is the input or output `name` of the kernel, called `local` in the source, from `offset`
    elements on. It lies among the weights, else in the arena.
    """

    name: str
    local: str
    dtype: DType
    offset: int
    is_weight: bool


@dataclass(frozen=True, slots=True)
class Shader:
    """The shader of a kernel under one binding, and what a dispatch needs of it."""

    source: str
    tile_program: TileProgram
    tensors: tuple[ShaderTensor, ...]
    grid: int
    threads: int
    workgroup_bytes: int
    options: ShaderOptions = field(default=ShaderOptions())

    def with_options(self, options: ShaderOptions) -> Shader:
        """Return the same program printed with other options."""
        source = emit(self.tile_program, _title(self.grid, self.threads), options)
        return replace(self, source=source, options=options)


def tiled_for(kernel: Kernel, device: Device) -> Device:
    """Return a device whose blocks have as much less memory as elements of a kernel grow.

    Tiles count the bytes of dtypes; in workgroup memory elements of 1 and 2 bytes have 4.
    """
    times = widening(kernel)
    if times == 1:
        return device
    room = max(1, device.block_shared_bytes // times)
    return replace(device, block_shared_bytes=room)


def print_shader(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, block: Tiling | None = None
) -> Shader:
    """Return the shader of a kernel under one binding; constants of the kernel are weights.

    Axes and tensors are named as in the canonical kernel. Without `block` Roller's first is used.

    Raises:
        BadOption: The kernel has no thread block, or a dtype or function that WGSL lacks.
        CheckFailed: The thread block breaks a rule of the device.
    """
    for t in kernel.tensors:
        if why := unprinted(t.dtype):
            raise BadOption(f"{t.name} is not printed: {why}", where=t.name)
    bound = bound_normal(kernel, sizes)
    if not bound.computes:
        return Shader("// no elements: nothing is dispatched\n", _EMPTY, (), 0, 1, 0)
    named, _ = canonical(bound)
    offsets = rebased(bound).offsets
    own = dict(zip((*named.inputs, *named.outputs), (*bound.inputs, *bound.outputs), strict=True))
    device = tiled_for(bound, device)
    shader = _printed(_Same(text_of(named), named), device, env, block)
    tensors = tuple(
        replace(t, name=own[t.name], offset=evaluate_dim(offsets.get(own[t.name], 0), sizes))
        for t in shader.tensors
    )
    return replace(shader, tensors=tensors)


_EMPTY = TileProgram((), (), ())


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
def _printed(same: _Same, device: Device, env: ShapeEnv, block: Tiling | None) -> Shader:
    block = block or _first_block(same.kernel, device)
    return print_tile_program(thread_block_steps(same.kernel, device, env, {}, block)[-1][1])


def _first_block(kernel: Kernel, device: Device) -> Tiling | None:
    """Return the tiler's first block of a canonical kernel, where Roller's tile does not fit."""
    try:
        return constructed_block(kernel, device)
    except BadOption:
        blocks = (grid.block for grid in cached_grids(kernel, device, cold=False))
        return next((block for block in blocks if block is not None), None)


def print_tile_program(program: TileProgram) -> Shader:
    """Return the shader of a thread block's program.

    Raises:
        BadOption: It takes more workgroup memory than WebGPU has.
    """
    used = workgroup_memory_bytes(program)
    if used > MOST_WORKGROUP_BYTES:
        raise BadOption(
            f"a workgroup takes {used:,} bytes of memory, and WebGPU has {MOST_WORKGROUP_BYTES:,}",
            expected="a smaller tile",
        )
    grid, threads = grid_of(program), max(1, threads_of(program.body))
    tensors = tuple(
        ShaderTensor(b.name, b.name, b.dtype, 0, b.kind == "constant") for b in in_storage(program)
    )
    source = emit(program, _title(grid, threads))
    return Shader(source, program, tensors, grid, threads, used)


def _title(grid: int, threads: int) -> str:
    return f"{counted(grid, 'workgroup')} of {counted(threads, 'thread')}"
