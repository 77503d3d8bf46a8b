"""Loops over vectors as LLVM code: elements are stored and reduced in one pass, what remains of a
row is masked.
"""

from __future__ import annotations

from typing import Any

from explorer.codegen.cpu.simd import of_integers
from explorer.codegen.cpu.vector.nest import Nest, Node, Operand, Reduced, Stored
from explorer.codegen.cpu.vector.nest_loops import I64
from explorer.codegen.cpu.vector.nest_reductions import Reductions
from explorer.codegen.cpu.vector.row_batched_reductions import Stacks
from explorer.codegen.cpu.vector.transposed_maps import Turns
from explorer.codegen.cpu.vector.vector_operations import BORDER_BYTES

__all__ = ["Nest", "Node", "Operand", "Reduced", "Stored", "vector_nest"]

WRITERS: dict[str, type[Reductions | Turns]] = {"turned": Turns, "stacked": Stacks}


def vector_nest(nest: Nest) -> Any:
    """A function of a tuple of integers that runs a nest."""
    return of_integers(nest.arguments, lambda b, given: _write(b, nest, given))


def _write(b: Any, nest: Nest, given: list[Any]) -> None:
    """The nest, twice where results may be stored non-temporally: at aligned addresses."""
    writer = WRITERS.get(nest.order, Reductions)(b, nest, given)
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
