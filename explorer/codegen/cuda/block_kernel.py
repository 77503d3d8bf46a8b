"""The kernel calls of a program as thread blocks of a GPU: what is read of each."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.codegen.cuda.assemble import Assembled, assemble, why_not, with_lines
from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.codegen.listing import Listing, Listings
from explorer.devices.model import Device
from explorer.errors import BadOption, CheckFailed, KernelCompileError
from explorer.ir.decisions.tiling import Chosen
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.plain_text import counted
from explorer.printed import Printed

IN_PLACE = "// PTX stands here: numba-cuda keeps no LLVM IR of a GPU's kernels\n"


@dataclass(frozen=True, slots=True, repr=False)
class BlockKernel(Printed):
    """A kernel call with the source of its thread block, or why there is none."""

    name: str
    origins: frozenset[str]
    device: Device
    code: BlockCode | None
    refused: str = ""

    def __str__(self) -> str:
        found = self.refused and f"no thread block: {self.refused}"
        if self.code is not None:
            found = f"{counted(self.code.grid, 'block')} of {counted(self.code.threads, 'thread')}"
        return f"{self.name} on {self.device.name}: {found}"

    @property
    def source(self) -> str:
        """The Numba CUDA source; of a call without one a line that says why."""
        return f"# no thread block: {self.refused}\n" if self.code is None else self.code.source

    @property
    def unassembled(self) -> str:
        """Why there is no PTX, in a sentence; empty where there is."""
        return self.refused if self.code is None else why_not(self.device)

    @property
    def assembled(self) -> Assembled:
        """PTX and what the assembler predicts; raises BadOption or KernelCompileError."""
        if self.code is None:
            raise BadOption(self.refused, where=self.name)
        return assemble(self.code, self.device)

    @property
    def figures(self) -> str:
        """What the assembler predicts, in a sentence, or why there is nothing of it."""
        try:
            return self.unassembled or f"predicted for {self.device.name}: {self.assembled.words}"
        except KernelCompileError as problem:
            return problem.sentence

    @property
    def listings(self) -> Listings:
        """PTX in the place of LLVM IR, and SASS where there is a disassembler, both behind the
        figures.
        """
        head = f"// {self.figures}\n"
        if self.code is None or self.unassembled:
            return Listings(Listing(head), Listing(head), "")
        try:
            found = with_lines(self.code, self.device)
        except KernelCompileError:
            return Listings(Listing(head), Listing(head), "")
        ptx, assembly = found.llvm, found.assembly
        llvm = Listing(f"{head}{IN_PLACE}{ptx.text}", (0, 0, *ptx.lines))
        lines = (0, *assembly.lines) if assembly.lines else ()
        return Listings(llvm, Listing(head + assembly.text, lines), found.note)


def print_blocks(
    program: Program, device: Device, sizes: Sizes, chosen: Chosen
) -> tuple[BlockKernel, ...]:
    """Every kernel call of a tiled program, in order, under one binding, as each block that was
    chosen for it by name; where none was, as Roller's first.
    """
    found = []
    calls = ((b, block) for b in program.kernel_calls for block in chosen.get(b.name, (None,)))
    for b, block in calls:
        try:
            code = print_block(b.kernel_call.kernel, device, program.env, sizes, block)
            found.append(BlockKernel(b.name, b.origin, device, code))
        except (BadOption, CheckFailed) as problem:
            found.append(BlockKernel(b.name, b.origin, device, None, problem.sentence))
    return tuple(found)
