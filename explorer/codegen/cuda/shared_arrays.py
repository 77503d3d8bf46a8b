"""The arrays of a thread block in shared memory, one behind the other."""

from __future__ import annotations

from explorer.codegen.cuda.emitter import Emitter
from explorer.codegen.cuda.narrow import held
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_programs.elements import REGISTER, Buffer
from explorer.ir.tile_programs.program import TileProgram
from explorer.tile.verify import ALIGNED_BYTES, room_bytes

STATIC_BYTES = 49_152  # that code may name ahead: CUDA C++ programming guide, 20.4


def in_shared_memory(p: TileProgram) -> list[Buffer]:
    """The buffers of a block that its threads share."""
    return [b for b in p.buffers if b.kind == "scratch" and b.level != REGISTER]


def shared(e: Emitter, p: TileProgram, asked: bool = False) -> None:
    """Arrays in shared memory: by name, or parts of what the launch asks for where that is more
    than code may name ahead, or where they are to be so (`asked`). Each part counts from where all
    begins: of a slice LLVM would not know where it does.
    """
    begins, buffers = beginnings(p), in_shared_memory(p)
    for b, begin in zip(buffers, begins):
        type_ = "boolean" if b.dtype == "bool" else held(b.dtype)
        if begins[-1] <= STATIC_BYTES and not asked:
            e.line(f"{b.name} = cuda.shared.array({b.size}, {type_}, {ALIGNED_BYTES})")
            continue
        first = begin // ITEM_BYTES[b.dtype]
        e.begins[b.name] = first
        own = f"  # elements {first} to {first + int(b.size)}"
        e.line(f"{b.name} = cuda.shared.array(0, {type_}, {ALIGNED_BYTES}){own}")


def beginnings(p: TileProgram) -> list[int]:
    """Where arrays begin that lie behind each other, in bytes, and the end of the last."""
    found = [0]
    for b in in_shared_memory(p):
        found.append(found[-1] + room_bytes(b))
    return found
