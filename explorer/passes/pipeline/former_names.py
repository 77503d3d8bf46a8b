"""Former names of the pipeline's steps, which scripts, links and `--set` may still hold."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CURRENT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "deduce shapes": "infer shapes",
        "count loops": "find trip counts",
        "share products": "merge matrix products",
        "split loops over layers": "split multi-layer recurrences",
        "multiply rows ahead": "hoist input projections",
        "share equal expressions": "eliminate common subexpressions",
        "fold scales into weights": "fold batch norm",
        "keep integer weights": "keep weights quantized",
        "keep products narrow": "use 16-bit matrix units",
        "fold copies into kernels": "fold layout copies",
        "fold copies of layouts": "fold channels-last copies",
        "write joins in place": "concatenate in place",
        "share long folds": "split and share reductions",
        "compute both sides": "if-convert branches",
        "grind control flow": "map control flow (Grinder)",
        "weld": "fuse (Welder)",
        "join results": "merge sibling kernels",
        "walk softmax in blocks": "online softmax",
        "choose convolutions": "select convolution algorithms",
        "roll": "tile (Roller)",
        "ram": "schedule (Rammer)",
        "choose ways of control flow": "select control-flow schedules",
        "measure ways": "measure control-flow schedules",
    }
)


def current_name(step: str) -> str:
    """Return the name that a step has today, or the argument if it was never renamed."""
    return CURRENT_NAMES.get(step, step)
