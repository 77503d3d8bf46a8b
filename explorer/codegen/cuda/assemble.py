"""The GPU resources of a thread block's code, as reported by NVIDIA's assembler.

PTX, registers, shared memory, spills. The assembler runs on any machine that has numba-cuda, and
measures nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from explorer.codegen.cuda.build import BlockCode
from explorer.codegen.cuda.object.machine_code import machine_code, marked_cubin, marked_ptx
from explorer.codegen.cuda.object.marked_lines import ptx_listing, sass_listing
from explorer.codegen.cuda.object.sass import disassembler, sass
from explorer.codegen.cuda.occupancy import RESERVED_BYTES, Occupancy, occupancy
from explorer.codegen.cuda.persistent import ProgramSource
from explorer.codegen.listing import Listing, Listings
from explorer.devices.model import Device
from explorer.errors import BadOption, KernelCompileError
from explorer.ir.dtypes import DType

LEAST_CAPABILITY = 75  # tenths, supported by CUDA 13: its release notes, 2025-08
COUNTS_RESERVED = 90  # tenths, from which the assembler counts CUDA's reserved bytes in each block
EXTRA = "ironworks[cuda]"
USED = re.compile(r"used (\d+) registers.*?, (\d+) stack, (\d+) bytes smem.*?, (\d+) bytes lmem")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class Assembled:
    """The assembled code of one kernel and its resources.

    `cubin` is the object file made of `ptx`, `registers` are those of a thread, `shared_bytes` are
    static shared memory of a block, `spilled_bytes` are what a thread spills (stores and loads),
    and `occupancy` is the blocks resident on a multiprocessor.
    """

    ptx: str
    cubin: bytes
    registers: int
    shared_bytes: int
    spilled_bytes: int
    occupancy: Occupancy

    @property
    def summary(self) -> str:
        """The figures in one line."""
        return (
            f"{self.registers} registers a thread, {self.shared_bytes:,} bytes of shared memory a "
            f"block, {self.spilled_bytes} bytes spilled; {self.occupancy.summary}"
        )


def why_not(device: Device) -> str:
    """Return why nothing can be assembled for a device here, in one sentence; empty if it can."""
    if find_spec("numba_cuda") is None or find_spec("cuda") is None:
        return f"PTX, registers, spills and occupancy need numba-cuda: pip install '{EXTRA}'"
    if device.capability < LEAST_CAPABILITY:
        have, least = (f"{n / 10}" for n in (device.capability, LEAST_CAPABILITY))
        return f"CUDA 13 needs compute capability {least} or more, {device.name} has {have}"
    return ""


def assemble(code: BlockCode, device: Device) -> Assembled:
    """Return the assembler's figures of a block's code on a device.

    Raises:
        BadOption: there is no assembler for the device.
        KernelCompileError: the assembler rejects the code.
    """
    if why := why_not(device):
        raise BadOption(why, where=device.name, try_="read the source, which needs no assembler")
    dtypes = tuple(t.dtype for t in code.tensors)
    return _assemble(code.source, "kernel", dtypes, code.threads, code.dynamic_bytes, device)


def with_lines(code: BlockCode, device: Device) -> Listings:
    """Return PTX (in place of LLVM IR) and SASS of `assemble` with their source lines.

    Both are compiled a second time with line marks; the note says how far the lines can be trusted.
    Without a disassembler the SASS is a comment that says so.
    """
    plain, dtypes = assemble(code, device), tuple(t.dtype for t in code.tensors)
    marked = marked_ptx(code.source, "kernel", dtypes, code.threads, device.capability)
    ptx, ptx_note = ptx_listing(plain.ptx, marked)
    if not disassembler():
        return Listings(ptx, Listing(sass(plain.cubin)), ptx_note)
    marked_sass = sass(marked_cubin(marked, device.capability), marks=True)
    assembly, note = sass_listing(sass(plain.cubin), marked_sass)
    return Listings(ptx, assembly, f"{ptx_note} {note}")


def assemble_program(code: ProgramSource, device: Device) -> Assembled:
    """Return the assembler's figures of a whole device program in one kernel."""
    if why := why_not(device):
        raise BadOption(why, where=device.name, try_="read the source, which needs no assembler")
    return _assemble(
        code.source, "program", code.arguments, code.threads, code.shared_bytes, device
    )


@lru_cache(maxsize=256)
def _assemble(
    source: str,
    entry: str,
    dtypes: tuple[DType, ...],
    threads: int,
    dynamic_bytes: int,
    device: Device,
) -> Assembled:
    """Compile and assemble one entry of a source; parse the figures from the log."""
    code = machine_code(source, entry, dtypes, threads, device.capability)
    used = USED.search(code.log)
    if used is None:
        raise KernelCompileError("the assembler's log has no register count", where="kernel")
    registers, _, static, _ = map(int, used.groups())
    spilled = sum(int(n) for amounts in SPILLED.findall(code.log) for n in amounts)
    reserved = RESERVED_BYTES if device.capability >= COUNTS_RESERVED and static else 0
    shared = static - reserved + dynamic_bytes
    resident = occupancy(device, threads, registers, shared)
    return Assembled(code.ptx, code.cubin, registers, shared, spilled, resident)
