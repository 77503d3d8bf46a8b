"""Options of Relax's cross-level passes."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.ranges import Rows, Switch, check, option


@dataclass(frozen=True, slots=True)
class Options:
    """Options that are all off by default.

    fuse      FuseOps by pattern kind instead of Welder's grouping: the named baseline
    dispatch  libraries, or functions of them, that take the operators they know, tried in order:
              "blas", "onnx", "onnx.Softmax", the user's own "mylib.gelu"
    lift      long sums are split, and partial sums become values that the memory plan places
    """

    fuse: bool = option(False, Switch(), "operators are fused by pattern kind, before Welder")
    dispatch: tuple[str, ...] = option(
        (),
        Rows((str,), "names of libraries or of functions"),
        "libraries that take the operators they know",
    )
    lift: bool = option(False, Switch(), "long sums are split, partial sums become values")

    def __post_init__(self) -> None:
        """Check the values."""
        check("relax", self)
