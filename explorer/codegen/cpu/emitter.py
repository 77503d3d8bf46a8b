"""What all statements of a kernel are printed with: lines, loops, stores, expressions."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.devices.model import Device
from explorer.ir.tile_programs.elements import Fetch, TileExpr
from explorer.ir.tile_programs.statements import Span


@dataclass(slots=True)
class Emitter:
    device: Device
    lines: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    depth: int = 2
    kernels: int = 0
    expressions: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def bounds(self, s: Span) -> tuple[str, str]:
        """The first value and the end, which is never before the first: their distance counts."""
        low, high = _ends(s)
        return low, f"max({high}, {low})" if s.clip_high or s.clip_low else high

    def loop(self, s: Span) -> None:
        lo, hi = _ends(s)
        self.line(f"for {s.axis} in range({lo}, {hi}):")
        self.depth += 1

    def at(self, s: Span, index: TileExpr) -> None:
        """What follows runs where an index is in a range, which its axis then has."""
        self.line(f"{s.axis} = I({self.expression(index)})")
        low, high = _ends(s)
        self.line(f"if {low} <= {s.axis} and {s.axis} < {high}:")
        self.depth += 1

    def store(self, f: Fetch, value: str) -> None:
        self.line(f"st_{f.buffer.dtype}({f.buffer.name}, {affine_text(f.offset)}, {value})")

    def expression(self, expr: TileExpr) -> str:
        """Print the parts first, each once; return the name of the result."""
        self.expressions += 1
        printer = Printer(self.expressions)
        name = printer.name(expr)
        for text in printer.lines:
            self.line(text)
        return name


def _ends(s: Span) -> tuple[str, str]:
    """The first value and the end of a loop, which does nothing where it ends before it begins."""
    lo, hi = affine_text(s.base), affine_text(s.base + s.size)
    low = f"max({lo}, 0)" if s.clip_low else lo
    return low, f"min({hi}, {dim_text(s.extent)})" if s.clip_high else hi
