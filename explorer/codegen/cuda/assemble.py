"""What the code of a thread block takes of a GPU, as NVIDIA's assembler tells: PTX, registers,
shared memory, spills. It runs on any machine that has numba-cuda, and measures nothing.
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

LEAST_CAPABILITY = 75  # tenths, that CUDA 13 makes code for: its release notes, 2025-08
TOLD = 90  # tenths, from which on the assembler counts what CUDA reserves in each block
EXTRA = "ironworks[cuda]"
USED = re.compile(r"used (\d+) registers.*?, (\d+) stack, (\d+) bytes smem.*?, (\d+) bytes lmem")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class Assembled:
    """Of one kernel: its PTX and the object file made of that, the registers of a thread, static
    shared bytes of a block, bytes that a thread spills (stores and loads), and the blocks that a
    multiprocessor holds.
    """

    ptx: str
    cubin: bytes
    registers: int
    shared_bytes: int
    spilled_bytes: int
    occupancy: Occupancy

    @property
    def words(self) -> str:
        """The figures in one line."""
        return (
            f"{self.registers} registers a thread, {self.shared_bytes:,} bytes of shared memory a "
            f"block, {self.spilled_bytes} bytes spilled; {self.occupancy.words}"
        )


def why_not(device: Device) -> str:
    """Why nothing can be assembled for a device here, in one sentence; empty where it can be."""
    if find_spec("numba_cuda") is None or find_spec("cuda") is None:
        return (
            f"PTX, registers, spills and occupancy are told with numba-cuda: pip install '{EXTRA}'"
        )
    if device.capability < LEAST_CAPABILITY:
        have, least = (f"{n / 10}" for n in (device.capability, LEAST_CAPABILITY))
        return f"CUDA 13 makes code from compute capability {least} on, {device.name} has {have}"
    return ""


def assemble(code: BlockCode, device: Device) -> Assembled:
    """The figures of a block's code on a device, predicted by the assembler.

    Raises BadOption where there is no assembler for it, KernelCompileError where it refuses.
    """
    if why := why_not(device):
        raise BadOption(why, where=device.name, try_="the source can be read without it")
    dtypes = tuple(t.dtype for t in code.tensors)
    return _assembled(code.source, "kernel", dtypes, code.threads, code.dynamic_bytes, device)


def with_lines(code: BlockCode, device: Device) -> Listings:
    """PTX, in the place of LLVM IR, and SASS of `assemble` with the line of the source that each of
    their lines comes from, and how far they can be trusted; both are compiled a second time, to be
    looked at. Without a disassembler SASS is a comment that says so.
    """
    plain, dtypes = assemble(code, device), tuple(t.dtype for t in code.tensors)
    marked = marked_ptx(code.source, "kernel", dtypes, code.threads, device.capability)
    ptx, ptx_note = ptx_listing(plain.ptx, marked)
    if not disassembler():
        return Listings(ptx, Listing(sass(plain.cubin)), ptx_note)
    there = sass(marked_cubin(marked, device.capability), marks=True)
    assembly, note = sass_listing(sass(plain.cubin), there)
    return Listings(ptx, assembly, f"{ptx_note} {note}")


def assemble_program(code: ProgramSource, device: Device) -> Assembled:
    """The same of a whole device program in one kernel."""
    if why := why_not(device):
        raise BadOption(why, where=device.name, try_="the source can be read without it")
    return _assembled(
        code.source, "program", code.arguments, code.threads, code.shared_bytes, device
    )


@lru_cache(maxsize=256)
def _assembled(
    source: str,
    entry: str,
    dtypes: tuple[DType, ...],
    threads: int,
    dynamic_bytes: int,
    device: Device,
) -> Assembled:
    code = machine_code(source, entry, dtypes, threads, device.capability)
    used = USED.search(code.log)
    if used is None:
        raise KernelCompileError("the assembler told no registers", where="kernel")
    registers, _, static, _ = map(int, used.groups())
    spilled = sum(int(n) for found in SPILLED.findall(code.log) for n in found)
    reserved = RESERVED_BYTES if device.capability >= TOLD and static else 0
    shared = static - reserved + dynamic_bytes
    held = occupancy(device, threads, registers, shared)
    return Assembled(code.ptx, code.cubin, registers, shared, spilled, held)
