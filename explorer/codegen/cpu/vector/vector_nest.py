"""Vectorised loop nests as LLVM code: values are stored and reduced in one pass.

The remainder of a row is masked.
"""

from __future__ import annotations

from typing import Any

from explorer.codegen.cpu.simd import of_integers
from explorer.codegen.cpu.vector.nest import Nest, Node, Operand, Reduced, Stored
from explorer.codegen.cpu.vector.nest_loops import I64
from explorer.codegen.cpu.vector.nest_reductions import Reductions
from explorer.codegen.cpu.vector.row_batched_reductions import RowBatchedReductions
from explorer.codegen.cpu.vector.transposed_maps import TransposedMaps
from explorer.codegen.cpu.vector.vector_operations import BORDER_BYTES

__all__ = ["Nest", "Node", "Operand", "Reduced", "Stored", "vector_nest"]

WRITERS: dict[str, type[Reductions | TransposedMaps]] = {
    "turned": TransposedMaps,
    "stacked": RowBatchedReductions,
}


def vector_nest(nest: Nest) -> Any:
    """Return a function of a tuple of integers that runs a nest."""
    return of_integers(nest.arguments, lambda b, arguments: _write(b, nest, arguments))


def _write(b: Any, nest: Nest, arguments: list[Any]) -> None:
    """Emit the nest, twice if results may be non-temporal: at aligned addresses, and at others."""
    writer = WRITERS.get(nest.order, Reductions)(b, nest, arguments)
    past = [s.operand for s in nest.stores if s.past]
    if not past:
        writer.write()
        return
    none = [I64(0)] * len(nest.counts)
    starts = [b.ptrtoint(writer.at(n, none), I64) for n in past]
    bits = starts[0]
    for other in starts[1:]:
        bits = b.or_(bits, other)
    aligned = b.icmp_unsigned("==", b.and_(bits, I64(BORDER_BYTES - 1)), I64(0))
    with b.if_else(aligned) as (then, otherwise):
        with then:
            writer.past = True
            writer.write()
        with otherwise:
            writer.past = False
            writer.write()
