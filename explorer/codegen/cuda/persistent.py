"""A whole device program as one persistent kernel, whose blocks stay on their multiprocessors.

Each block follows the rows of its unit, runs tasks of thread blocks, and waits for steps of other
units. `runtime.device_program.instructions` defines the rows; here all threads of a block follow
them together. All values lie in one memory: an address in a row counts bytes from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.codegen.cuda.build import BlockCode
from explorer.codegen.cuda.emitter import shared_offsets
from explorer.codegen.cuda.print import IMPORTS, block_lines
from explorer.ir.dtypes import ITEM_BYTES, DType

WORDS = ("int64", "uint8")  # views of memory that rows read and write
LINE_WORDS = 16  # int64 from the counter of one unit to the next: a line of 128 bytes
NOTHING, HUNG = 0, -1  # faults; those above 0 are set by rows
TABLES = (  # int64 arrays beside the memory
    *("rows", "begins", "calls", "pointers", "stack", "stamps", "made"),
    *("table", "counters", "state"),
)
MOVING = TABLES[-3:]  # initial state of a run, which it changes
LOOKS = 64  # polls of a counter between two reads of the clock; chosen

PROGRAM_HEAD = '''
from llvmlite import ir
from numba.cuda.extending import intrinsic

# program[{units}, {threads}, 0, {shared}](...): no more blocks than can be resident

{numbers}


@intrinsic
def globaltimer(context):
    """Nanoseconds, the same on all multiprocessors."""
    def code(target, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(ir.InlineAsm(kind, "mov.u64 $0, %globaltimer;", "=l", True), [])
    return int64(), code


@cuda.jit(device=True)
def comes(counters, at, least, give_up):
    """Whether a counter reaches a number in time."""
    looks = 0
    while cuda.ldcv(counters, at) < least:
        cuda.nanosleep(uint32(20))
        looks += 1
        if looks % {looks} == 0 and globaltimer() > give_up:
            return False
    return True

'''

PROGRAM = """
@cuda.jit
def program({arguments}):
    _thread = cuda.threadIdx.x
    unit = cuda.blockIdx.x
    units = cuda.gridDim.x
    stride, room, patience = state[1], state[2], state[3]
    give_up = globaltimer() + patience
    mine = unit * state[4]  # of the table
    moving = unit * state[5]
    kept = unit * state[6]
    registers = cuda.local.array({registers}, int64)
    row, epoch, stamped, hung = begins[unit], 0, 0, int32(0)
    first = row
    while True:
        op, a, b, c, d = rows[row], rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4]
        row += 5
        if op == RUN:
            began = globaltimer()
            kernel, at = calls[2 * a], mine + calls[2 * a + 1]
            for task in range(b, c):
{dispatch}
                cuda.syncthreads()
            if _thread == 0:
                if stamped < room:
                    stamp = 3 * (unit * room + stamped)
                    stamps[stamp] = (row - 5 - first) // 5
                    stamps[stamp + 1] = began
                    stamps[stamp + 2] = globaltimer()
                if d > 0:
                    cuda.threadfence()
                    cuda.atomic.exch(counters, unit * {line}, epoch * stride + d)
            stamped += 1
        elif op == WAIT:  # and the c - 1 waits behind it, each by another thread
            for n in range(_thread, c, {threads}):
                other, step = rows[row + 5 * n - 4], rows[row + 5 * n - 3]
                if not comes(counters, other * {line}, epoch * stride + step, give_up):
                    hung = int32(1)
            row += 5 * (c - 1)
            cuda.threadfence()
            if cuda.syncthreads_or(hung) != 0:
                break
        elif op == BARRIER:
            epoch += 1
            cuda.syncthreads()
            if _thread == 0:
                cuda.threadfence()
                cuda.atomic.exch(counters, unit * {line}, epoch * stride)
            for other in range(_thread, units, {threads}):
                if not comes(counters, other * {line}, epoch * stride, give_up):
                    hung = int32(1)
            cuda.threadfence()
            if cuda.syncthreads_or(hung) != 0:
                break
        elif op == LOOK:
            where = table[mine + b]
            registers[a] = int64(memory_uint8[where]) if c == 1 else memory_int64[where // 8]
        elif op == BRANCH:
            if registers[a] == 0:
                row = first + 5 * b
        elif op == LOOP:
            if registers[a] + d >= memory_int64[table[mine + b] // 8]:
                row = first + 5 * c
        elif op == LET:
            registers[a] = b
        elif op == NEXT:
            registers[a] += 1 + b
        elif op == STORE:
            if _thread == 0 and (unit == 0 or d != 0):
                memory_int64[table[mine + a] // 8] = registers[b] + c
            cuda.syncthreads()
        elif op == COPY:
            target, source = table[mine + a], table[mine + b]
            begin, end = 0, c
            if d == 0:
                lines = (c + 63) // 64
                begin, end = lines * unit // units * 64, min(lines * (unit + 1) // units * 64, c)
            for n in range(begin + _thread, end, {threads}):
                memory_uint8[target + n] = memory_uint8[source + n]
            cuda.syncthreads()
        elif op == FILL:
            if _thread == 0 and (unit == 0 or d != 0):
                if b == 1:
                    memory_uint8[table[mine + a]] = uint8(c)
                else:
                    memory_int64[table[mine + a] // 8] = c
            cuda.syncthreads()
        elif op == JUMP:
            row = first + 5 * a
        elif op == POINT:
            cuda.syncthreads()
            if _thread == 0:
                for n in range(a, b):
                    at = moving + 4 * n
                    moved = table[mine + pointers[at + 1]] + registers[c] * pointers[at + 2]
                    table[mine + pointers[at]] = moved + pointers[at + 3]
            cuda.syncthreads()
        elif op == CALL:
            registers[a] += 1
            at = kept + c + registers[a] * d
            if _thread == 0:
                stack[at] = row
                for n in range(1, d):
                    stack[at + n] = registers[a + n]
            cuda.syncthreads()
            row = first + 5 * b
        elif op == RETURN:
            at = kept + b + registers[a] * c
            row = stack[at]
            for n in range(1, c):
                registers[a + n] = stack[at + n]
            registers[a] -= 1
            cuda.syncthreads()
        elif op == DEEPEST:
            if registers[a] >= b:
                if _thread == 0:
                    state[0] = c
                row = first + 5 * d
        elif op == QUIT:
            if state[0] != 0:
                break
        else:
            break
    if hung != 0:
        cuda.atomic.cas(state, 0, 0, HUNG)
    if _thread == 0:
        made[unit] = min(stamped, room)
"""


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """The source of a device program and how it is launched.

    `threads` are those of each resident block, with `shared_bytes`. `memories` are the dtypes that
    its one memory is viewed as, in order.
    """

    source: str
    threads: int
    shared_bytes: int
    memories: tuple[DType, ...]

    @property
    def arguments(self) -> tuple[DType, ...]:
        """The dtypes of the flat arrays that the kernel takes."""
        return (*("int64" for _ in TABLES), *self.memories)


def print_program(
    blocks: Sequence[BlockCode],
    numbers: Mapping[str, int],
    registers: int,
    units: int,
    lanes: int,
) -> ProgramSource:
    """Return one kernel for the tasks of all these thread blocks, by position.

    `numbers` are the opcodes of the rows, `registers` the registers of a unit, and `lanes` the
    threads of a warp.
    """
    threads = max((b.threads for b in blocks), default=1)
    threads = -(-threads // lanes) * lanes  # whole warps: all lanes take part in a shuffle
    shared = max((shared_offsets(b.tile_program)[-1] for b in blocks), default=0)
    dtypes = {t.dtype for b in blocks for t in b.tensors}
    memories = (*WORDS, *sorted(dtypes - {*WORDS}))
    functions = [_function(n, b, threads) for n, b in enumerate(blocks)]
    head = PROGRAM_HEAD.format(
        units=units,
        threads=threads,
        shared=shared,
        looks=LOOKS,
        numbers="\n".join(f"{name} = {n}" for name, n in {**numbers, "HUNG": HUNG}.items()),
    )
    body = PROGRAM.format(
        arguments=", ".join((*TABLES, *(f"memory_{d}" for d in memories))),
        registers=max(1, registers),
        threads=threads,
        line=LINE_WORDS,
        dispatch="\n".join(_dispatch(n, b) for n, b in enumerate(blocks)),
    )
    return ProgramSource(IMPORTS + head + "\n".join(functions) + body, threads, shared, memories)


def _function(number: int, block: BlockCode, threads: int) -> str:
    arguments = ", ".join(["_block", *(t.local for t in block.tensors)])
    lines = block_lines(block.tile_program, threads, is_dynamic=True, aligned=block.aligned)
    body = "\n".join(lines)
    return f"\n@cuda.jit(device=True)\ndef block_{number}({arguments}):\n{body}\n"


def _dispatch(number: int, block: BlockCode) -> str:
    parts = [
        f"memory_{t.dtype}[table[at + {n}] // {ITEM_BYTES[t.dtype]} :]"
        for n, t in enumerate(block.tensors)
    ]
    test = f"{'el' if number else ''}if kernel == {number}:"
    call = [f"    block_{number}(", *(f"        {part}," for part in ("task", *parts)), "    )"]
    return "\n".join(" " * 16 + line for line in (test, *call))
