"""Kernel calls of a compilation with their code."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.codegen.build import KernelCode
from explorer.devices.listing import Listings
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.text.text_tokens import print_tiling
from explorer.printed import Printed


@dataclass(frozen=True, slots=True, repr=False)
class CompiledKernel(Printed):
    """One kernel call with its code; `llvm` and `assembly` are made when they are first read."""

    name: str
    code: KernelCode
    origins: frozenset[str]
    tiling: Tiling

    def __str__(self) -> str:
        """Return the name, the tiling and the source operators."""
        return f"{self.name} {print_tiling(self.tiling)} computes {', '.join(sorted(self.origins))}"

    @property
    def source(self) -> str:
        """The Numba source."""
        return self.code.source

    @property
    def listings(self) -> Listings:
        """LLVM IR and assembly; each line has the line of the source that it comes from."""
        return self.code.listings

    @property
    def llvm(self) -> str:
        """The optimised LLVM IR."""
        return self.listings.llvm.text

    @property
    def assembly(self) -> str:
        """The machine code in assembly language."""
        return self.listings.assembly.text
