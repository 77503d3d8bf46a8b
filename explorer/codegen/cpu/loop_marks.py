"""Wishes about loops that LLVM should leave as they are written."""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir

MARK = re.compile(r'^(!\d+) = !\{ !"loop as it is \d+" \}$', re.MULTILINE)
AS_THEY_ARE = """
!1000000 = !{!"llvm.loop.unroll.disable"}
!1000001 = !{!"llvm.loop.interleave.count", i32 1}
"""


def leave_as_it_is(module: ir.Module, end: Any) -> None:
    """The loop that a branch ends is neither unrolled nor interleaved, once `with_wishes` has
    written the text; until then, and where Numba compiles it, the mark says nothing.
    """
    name = ir.MetaDataString(module, f"loop as it is {len(module.metadata)}")
    end.set_metadata("llvm.loop", module.add_metadata([name]))


def with_wishes(text: str) -> str:
    """A module's text with the wish of each marked loop: llvmlite cannot write what names
    itself.
    """
    return MARK.sub(r"\1 = distinct !{\1, !1000000, !1000001}", text) + AS_THEY_ARE
