"""The GPU resources of a thread block's code, as reported by NVIDIA's assembler, and its listings.

PTX, SASS, registers, shared memory, spills, occupancy. The assembler runs on any machine that has
numba-cuda, and measures nothing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from subprocess import TimeoutExpired, run
from tempfile import TemporaryDirectory

from explorer.codegen.cuda.build import BlockCode
from explorer.codegen.cuda.machine_code import machine_code, marked_cubin, marked_ptx
from explorer.codegen.cuda.persistent import ProgramSource
from explorer.devices.listing import Listing, Listings
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


_LOC = re.compile(r"\t\.loc\t\d+ (\d+)")
_OF_MARKS = re.compile(r"\t\.(?:loc|file)\t")
_INSTRUCTION = re.compile(r"\t(?:@!?%\w+ )?[a-z]")
_NAME = re.compile(r"\b_\w+")
_SASS_LINE = re.compile(r'\t//## File "[^"]*", line (\d+)')
_SASS_MARK = "\t//##"
_SASS_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+\S")
EXACT = (
    "This is the {} of the kernel: a copy with line information was compiled to the same. What "
    "the compiler merged from several lines has none."
)
NEARLY = (
    "The lines are those of a copy with line information, of which the compiler makes {} of {:,} "
    "lines of {} otherwise: those have none."
)


def ptx_listing(plain: str, marked: str) -> tuple[Listing, str]:
    """Return PTX with the source lines of its marked copy, and a note on how far to trust them.

    Numba numbers and mangles names anew each time, which does not count as a difference.
    """
    lines, unmarked, now = list[int](), list[str](), 0
    for text in marked.rstrip().split("\n"):
        if match := _LOC.match(text):
            now = int(match.group(1))
        if not _OF_MARKS.match(text):
            unmarked.append(text)
            lines.append(now if _INSTRUCTION.match(text) else 0)
    return _match_lines(plain, unmarked, lines, "PTX")


def sass_listing(plain: str, marked: str) -> tuple[Listing, str]:
    """Return SASS with the source lines of its marked copy, and a note on how far to trust them.

    Of the marks above an instruction, the first is the line itself; the others are where it was
    inlined.
    """
    lines, unmarked, now, marks = list[int](), list[str](), 0, False
    for text in marked.rstrip().split("\n"):
        if text.startswith(_SASS_MARK):
            match = _SASS_LINE.match(text)
            now, marks = (int(match.group(1)) if match and not marks else now), True
            continue
        marks = False
        unmarked.append(text)
        lines.append(now if _SASS_INSTRUCTION.match(text) else 0)
    return _match_lines(plain, unmarked, lines, "SASS")


def _match_lines(
    plain: str, unmarked: list[str], lines: list[int], what: str
) -> tuple[Listing, str]:
    """Return the lines of a copy for the text itself, where both are the same."""
    lines_plain, lines_marked = (
        _numbered_names(text).split("\n") for text in (plain.rstrip(), "\n".join(unmarked))
    )
    same = SequenceMatcher(None, lines_plain, lines_marked, autojunk=False).get_matching_blocks()
    source_lines = [0] * (plain.rstrip("\n").count("\n") + 1)
    for a, b, size in same:
        source_lines[a : a + size] = lines[b : b + size]
    others = len(lines_plain) - sum(size for _, _, size in same)
    note = NEARLY.format(others, len(lines_plain), what) if others else EXACT.format(what)
    return Listing(plain, tuple(source_lines)), note


def _numbered_names(text: str) -> str:
    """Return the text with its long names numbered in their order."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda match: names.setdefault(match.group(), f"_{len(names)}"), text)


PACKAGE = "nvidia-cuda-nvdisasm"
NAME = "nvdisasm"
PATIENCE_S = 60  # for a program of some megabytes; chosen


def disassembler() -> str:
    """Return the path of the disassembler, on the path or in its package; "" if it is missing."""
    on_path = which(NAME)
    if on_path is not None:
        return on_path
    spec = find_spec("nvidia")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        for file in sorted(Path(folder).glob(f"cu*/bin/{NAME}")):
            if os.access(file, os.X_OK):
                return str(file)
    return ""


@lru_cache(maxsize=64)
def sass(cubin: bytes, marks: bool = False) -> str:
    """Return the instructions of an object file, or a comment that says why there are none.

    `marks`: with the source-line marks that it holds. Raises KernelCompileError if the disassembler
    rejects it or does not run.
    """
    tool = disassembler()
    if not tool:
        return f"// SASS needs NVIDIA's disassembler: pip install {PACKAGE}\n"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        try:
            options = ["-c", *(["-g"] if marks else [])]
            done = run(
                [tool, *options, str(file)], capture_output=True, text=True, timeout=PATIENCE_S
            )
        except (OSError, TimeoutExpired) as problem:
            raise KernelCompileError(f"{NAME} did not run: {problem}", where="kernel") from problem
    if done.returncode:
        first = done.stderr.strip().split("\n")[0]
        raise KernelCompileError(f"{NAME} rejects an object file: {first}", where="kernel")
    return done.stdout


WARP_REGISTERS = 256  # allocation unit of a warp: CUDA occupancy calculator, 3.0 on
RESERVED_BYTES = 1024  # of shared memory in each block from 8.0 on: CUDA C++ guide, 20.7.3
RESERVES = 80  # tenths, the first compute capability that reserves bytes


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The occupancy of a multiprocessor.

    `blocks` are resident together, with `warps` of at most `most_warps`. `limits` are the blocks
    that each of its resources would allow.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """The share of the most warps that is resident."""
        return self.warps / max(1, self.most_warps)

    @property
    def limited_by(self) -> str:
        """The first resource that allows no more blocks."""
        return next(name for name, blocks in self.limits if blocks == self.blocks)

    @property
    def summary(self) -> str:
        """The occupancy in one line."""
        many = "block" if self.blocks == 1 else "blocks"
        return f"occupancy {self.share:.0%}: {self.blocks} {many} a unit, by {self.limited_by}"


def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return the occupancy of blocks of `threads` threads.

    `registers` are those of a thread, `shared_bytes` those of a block.
    """
    warps = -(-max(1, threads) // device.lanes)
    per_warp = -(-registers * device.lanes // WARP_REGISTERS) * WARP_REGISTERS
    own = RESERVED_BYTES if device.capability >= RESERVES else 0
    most_warps = device.unit_threads // device.lanes
    limits = (
        ("threads", most_warps // warps),
        ("registers", device.unit_registers // max(1, per_warp) // warps),
        ("shared memory", device.unit_shared_bytes // max(1, shared_bytes + own)),
        ("blocks", device.unit_blocks),
    )
    blocks = min(n for _, n in limits)
    return Occupancy(blocks, blocks * warps, most_warps, limits)
