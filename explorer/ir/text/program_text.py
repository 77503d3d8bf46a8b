"""Programs as text, which the Program pane shows and which parses back to an equal program.

    y: float32[1, 64, 55, 55] = kernel conv(x=x, weight=@w)  # Conv_12
      for n < 1, o < 64, h < 55, w < 55:
        y[n, o, h, w] = sum[c < 3, k < 3] x[n, c, h*2 + k, w*2] * weight[o, c, k, 0]

Constants stand by name and digest; decisions other than tiles are not part of the text.
"""

from __future__ import annotations

from explorer.ir.text.parser import parse_program
from explorer.ir.text.printer import binding_lines, print_expr, print_kernel, print_program
from explorer.ir.text.text_tokens import print_affine, print_dim, print_type

__all__ = [
    "binding_lines",
    "parse_program",
    "print_affine",
    "print_dim",
    "print_expr",
    "print_kernel",
    "print_program",
    "print_type",
]
