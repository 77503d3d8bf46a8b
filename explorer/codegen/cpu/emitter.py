"""Emission shared by all statements of a CPU kernel: lines, loops, stores, expressions."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.devices.model import Device
from explorer.ir.tile_programs.elements import Fetch, TileExpr
from explorer.ir.tile_programs.statements import Span


@dataclass(slots=True)
class Emitter:
    """The lines of a kernel's source, and the state that its statements share."""

    device: Device
    lines: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    depth: int = 2
    kernels: int = 0
    expressions: int = 0

    def line(self, text: str) -> None:
        """Append a line, indented by the loops around it."""
        self.lines.append("    " * self.depth + text)

    def bounds(self, s: Span) -> tuple[str, str]:
        """Return the first value and the end; the end is never before the first.

        Their difference is used as a count.
        """
        low, high = _ends(s)
        return low, f"max({high}, {low})" if s.clip_high or s.clip_low else high

    def loop(self, s: Span) -> None:
        """Open a loop over the values of an axis."""
        lo, hi = _ends(s)
        self.line(f"for {s.axis} in range({lo}, {hi}):")
        self.depth += 1

    def at(self, s: Span, index: TileExpr) -> None:
        """Open a branch for an index inside of a range; the axis is set to the index."""
        self.line(f"{s.axis} = I({self.expression(index)})")
        low, high = _ends(s)
        self.line(f"if {low} <= {s.axis} and {s.axis} < {high}:")
        self.depth += 1

    def store(self, f: Fetch, value: str) -> None:
        """Store a value in an element."""
        self.line(f"st_{f.buffer.dtype}({f.buffer.name}, {affine_text(f.offset)}, {value})")

    def expression(self, expr: TileExpr) -> str:
        """Print an expression, common subexpressions once; return the name of the result."""
        self.expressions += 1
        printer = Printer(self.expressions)
        name = printer.name(expr)
        for text in printer.lines:
            self.line(text)
        return name


def _ends(s: Span) -> tuple[str, str]:
    """Return the first value and the end of a loop; an end before the first means no trips."""
    lo, hi = affine_text(s.base), affine_text(s.base + s.size)
    low = f"max({lo}, 0)" if s.clip_low else lo
    return low, f"min({hi}, {dim_text(s.extent)})" if s.clip_high else hi
