"""The kernel calls of a program as thread blocks of a GPU, with their source and listings."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.codegen.cuda.assemble import Assembled, assemble, why_not, with_lines
from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.devices.listing import Listing, Listings
from explorer.devices.model import Device
from explorer.errors import BadOption, CheckFailed, KernelCompileError
from explorer.ir.decisions.tiling import Chosen
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.plain_text import counted
from explorer.printed import Printed

IN_PLACE = "// PTX stands here: numba-cuda keeps no LLVM IR of a GPU's kernels\n"


@dataclass(frozen=True, slots=True, repr=False)
class BlockKernel(Printed):
    """A kernel call with the source of its thread block, or the reason why it has none."""

    name: str
    origins: frozenset[str]
    device: Device
    code: BlockCode | None
    refused: str = ""

    def __str__(self) -> str:
        """Return one line with the numbers of blocks and threads."""
        summary = self.refused and f"no thread block: {self.refused}"
        if self.code is not None:
            summary = (
                f"{counted(self.code.grid, 'block')} of {counted(self.code.threads, 'thread')}"
            )
        return f"{self.name} on {self.device.name}: {summary}"

    @property
    def source(self) -> str:
        """The Numba CUDA source, or a comment that says why there is none."""
        return f"# no thread block: {self.refused}\n" if self.code is None else self.code.source

    @property
    def unassembled(self) -> str:
        """Why there is no PTX, in a sentence; empty if there is."""
        return self.refused if self.code is None else why_not(self.device)

    @property
    def assembled(self) -> Assembled:
        """PTX and the assembler's predictions; raises BadOption or KernelCompileError."""
        if self.code is None:
            raise BadOption(self.refused, where=self.name)
        return assemble(self.code, self.device)

    @property
    def figures(self) -> str:
        """The assembler's predictions in a sentence, or why there are none."""
        try:
            return self.unassembled or f"predicted for {self.device.name}: {self.assembled.summary}"
        except KernelCompileError as problem:
            return problem.sentence

    @property
    def listings(self) -> Listings:
        """PTX in place of LLVM IR, and SASS if there is a disassembler; the figures come first."""
        head = f"// {self.figures}\n"
        if self.code is None or self.unassembled:
            return Listings(Listing(head), Listing(head), "")
        try:
            listings = with_lines(self.code, self.device)
        except KernelCompileError:
            return Listings(Listing(head), Listing(head), "")
        ptx, assembly = listings.llvm, listings.assembly
        llvm = Listing(f"{head}{IN_PLACE}{ptx.text}", (0, 0, *ptx.lines))
        lines = (0, *assembly.lines) if assembly.lines else ()
        return Listings(llvm, Listing(head + assembly.text, lines), listings.note)


def print_blocks(
    program: Program, device: Device, sizes: Sizes, chosen: Chosen
) -> tuple[BlockKernel, ...]:
    """Return the thread blocks of every kernel call of a tiled program under one binding.

    They are in the order of the calls. `chosen` has the blocks of a call by its name; other calls
    use Roller's first block.
    """
    kernels = []
    calls = ((b, block) for b in program.kernel_calls for block in chosen.get(b.name, (None,)))
    for b, block in calls:
        try:
            code = print_block(b.kernel_call.kernel, device, program.env, sizes, block)
            kernels.append(BlockKernel(b.name, b.origin, device, code))
        except (BadOption, CheckFailed) as problem:
            kernels.append(BlockKernel(b.name, b.origin, device, None, problem.sentence))
    return tuple(kernels)
