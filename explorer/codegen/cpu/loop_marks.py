"""Metadata for loops that LLVM must neither unroll nor interleave."""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir

MARK = re.compile(r'^(!\d+) = !\{ !"loop as it is \d+" \}$', re.MULTILINE)
AS_THEY_ARE = """
!1000000 = !{!"llvm.loop.unroll.disable"}
!1000001 = !{!"llvm.loop.interleave.count", i32 1}
"""


def mark_loop(module: ir.Module, end: Any) -> None:
    """Mark the loop that a branch ends, so that it is neither unrolled nor interleaved.

    `with_loop_metadata` turns the mark into metadata; until then, and if Numba compiles it, the
    mark has no effect.
    """
    name = ir.MetaDataString(module, f"loop as it is {len(module.metadata)}")
    end.set_metadata("llvm.loop", module.add_metadata([name]))


def with_loop_metadata(text: str) -> str:
    """Return a module's text with the metadata of each marked loop.

    llvmlite cannot write self-referential metadata.
    """
    return MARK.sub(r"\1 = distinct !{\1, !1000000, !1000001}", text) + AS_THEY_ARE
