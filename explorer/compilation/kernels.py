"""A kernel call of a compilation with its code."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.codegen.build import KernelCode
from explorer.ir.decisions.tiling import Tiling


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel call with its code; `llvm` and `assembly` are made when they are asked for."""

    name: str
    code: KernelCode
    origins: frozenset[str]
    tiling: Tiling

    @property
    def source(self) -> str:
        """The Numba source."""
        return self.code.source

    @property
    def llvm(self) -> str:
        """The optimised LLVM IR."""
        return self.code.llvm()

    @property
    def assembly(self) -> str:
        """The machine code in assembly language."""
        return self.code.assembly()
