"""The arrays of a thread block in shared memory, one behind the other."""

from __future__ import annotations

from explorer.codegen.cuda.emitter import Emitter
from explorer.codegen.cuda.narrow import stored_dtype
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_programs.elements import REGISTER, Buffer
from explorer.ir.tile_programs.program import TileProgram
from explorer.tile.verify import ALIGNED_BYTES, room_bytes

STATIC_BYTES = 49_152  # limit of static arrays: CUDA C++ programming guide, 20.4


def in_shared_memory(p: TileProgram) -> list[Buffer]:
    """Return the buffers of a block that its threads share."""
    return [b for b in p.buffers if b.kind == "scratch" and b.level != REGISTER]


def declare_shared(e: Emitter, p: TileProgram, is_dynamic: bool = False) -> None:
    """Declare the arrays in shared memory.

    They are static arrays, or parts of the launch's dynamic memory if they exceed the static limit
    or if `is_dynamic`. Each part counts from where all begin: LLVM would not know the alignment of
    a slice.
    """
    begins, buffers = shared_offsets(p), in_shared_memory(p)
    for b, begin in zip(buffers, begins):
        type_ = "boolean" if b.dtype == "bool" else stored_dtype(b.dtype)
        if begins[-1] <= STATIC_BYTES and not is_dynamic:
            e.line(f"{b.name} = cuda.shared.array({b.size}, {type_}, {ALIGNED_BYTES})")
            continue
        first = begin // ITEM_BYTES[b.dtype]
        e.begins[b.name] = first
        own = f"  # elements {first} to {first + int(b.size)}"
        e.line(f"{b.name} = cuda.shared.array(0, {type_}, {ALIGNED_BYTES}){own}")


def shared_offsets(p: TileProgram) -> list[int]:
    """Return the first bytes of arrays that lie behind each other, and the end of the last."""
    offsets = [0]
    for b in in_shared_memory(p):
        offsets.append(offsets[-1] + room_bytes(b))
    return offsets
