"""Maps whose vectors lie along what they store, and which read what is dense along another loop:
blocks as long as a vector both ways are read along that loop and turned in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from explorer.codegen.cpu.math.llvm_value import LlvmValue
from explorer.codegen.cpu.vector.nest import Nest, Node
from explorer.codegen.cpu.vector.nest_loops import I64, Counters, Loops, Values, children
from explorer.codegen.cpu.vector.transposed_blocks import turned
from explorer.codegen.cpu.vector.vector_operations import CELLS, decoded, elements, splat


@dataclass(slots=True)
class _Beside:
    """A vector of every row: where it begins, its lanes, and values by node."""

    i: Any
    mask: Any
    scalars: Values
    vectors: Values

    def copy(self) -> _Beside:
        """The same, to which more values can be added."""
        return replace(self, scalars=dict(self.scalars), vectors=dict(self.vectors))


class Turns(Loops):
    """The order "turned": `y[m, l] = f(x[l, m], ...)`, with vectors along l."""

    def __init__(self, b: Any, nest: Nest, given: Sequence[Any]) -> None:
        super().__init__(b, nest, given)
        every = range(len(nest.nodes))
        self.blocks = {n: self._room(nest.nodes[n]) for n in every if self._is_turned(n)}
        self.moving = self._moving()
        self.still = [n for n in every if n not in self.moving]

    def _is_turned(self, n: int) -> bool:
        node = self.nest.nodes[n]
        return node.op == "load" and self.nest.operands[node.args[0]].turned

    def _room(self, node: Node) -> Any:
        """Where the columns of a block rest."""
        lanes, dtype = self.nest.lanes, self.nest.operands[node.args[0]].dtype
        kind = ir.ArrayType(ir.VectorType(CELLS[dtype], lanes), lanes)
        return cgutils.alloca_once(self.b, kind)

    def _moving(self) -> list[int]:
        """The nodes whose values differ along the loop before the vectors', in order."""
        found: list[int] = []
        for n, node in enumerate(self.nest.nodes):
            operand = self.nest.operands[node.args[0]] if node.op in ("load", "index") else None
            own = operand is not None and operand.steps[-2] != 0
            if own or any(a in found for a in children(node)):
                found.append(n)
        return found

    def write(self) -> None:
        """Blocks of the two loops, the longer one inside."""
        rows, along = self.nest.counts
        if rows is not None and (along is None or along > rows):
            self.in_steps(0, lambda j, rest: self.in_steps(1, self.blocks_at(j, rest)))
        else:
            self.in_steps(1, self.blocks_beside)

    def blocks_at(self, j: Any, rest: Any) -> Callable[[Any, Any], None]:
        """The blocks that begin at a row."""
        return lambda i, left: self.block(j, rest, self.beside(i, left))

    def blocks_beside(self, i: Any, left: Any) -> None:
        """The blocks that hold the same vector of each row."""
        shared = self.beside(i, left)
        self.in_steps(0, lambda j, rest: self.block(j, rest, shared))

    def in_steps(self, loop: int, body: Callable[[Any, Any], None]) -> None:
        """The body for every whole vector's length of a loop; for what remains, how many."""
        b, lanes, count, known = self.b, self.nest.lanes, self.counts[loop], self.nest.counts[loop]
        whole = self.opaque(b.and_(count, I64(-lanes)))
        self.loop(whole, lanes, lambda i: body(i, None))
        if known is None or known % lanes:
            left = b.sub(count, whole)
            with b.if_then(b.icmp_signed(">", left, I64(0))):
                body(whole, left)

    def beside(self, i: Any, left: Any) -> _Beside:
        """What all rows share at one vector of each."""
        found = _Beside(i, None if left is None else self.mask(left), {}, {})
        self.compute(self.still, found, [I64(0), i])
        return found

    def block(self, j: Any, rest: Any, shared: _Beside) -> None:
        """One block: what is turned is read first, then a row is mapped at a time."""
        b = self.b
        for n, place in self.blocks.items():
            for k, column in enumerate(self.columns(n, j, rest, shared)):
                b.store(column, b.gep(place, [I64(0), I64(k)]))

        def row(m: Any) -> None:
            mine, place = shared.copy(), [b.add(j, m), shared.i]
            self.compute(self.moving, mine, place, m)
            self.stored(mine.vectors, place, mine.mask)

        self.loop(self.opaque(I64(self.nest.lanes) if rest is None else rest), 1, row)

    def columns(self, n: int, j: Any, rest: Any, shared: _Beside) -> list[Any]:
        """A block with its axes changed; past the last lane its last row again."""
        b, (operand,) = self.b, self.nest.nodes[n].args
        dtype, end = self.nest.operands[operand].dtype, b.sub(self.counts[-1], I64(1))
        keep = None if rest is None else self.mask(rest)
        rows = []
        for k in range(self.nest.lanes):
            at = b.add(shared.i, I64(k))
            if shared.mask is not None:
                at = b.select(b.icmp_signed("<", at, end), at, end)
            rows.append(elements(b, self.at(operand, [j, at]), dtype, self.nest.lanes, keep).v)
        return turned(b, rows)

    def compute(self, nodes: list[int], known: _Beside, place: Counters, m: Any = None) -> None:
        """The values of nodes, in every lane where vectors need them; `m`: the row of a block."""
        b, lanes, vectors = self.b, self.nest.lanes, known.vectors
        for n in nodes:
            node = self.nest.nodes[n]
            if n in self.blocks:
                kept = LlvmValue(b, b.load(b.gep(self.blocks[n], [I64(0), m])))
                vectors[n] = decoded(kept, self.nest.operands[node.args[0]].dtype)
            elif node.varies:
                vectors[n] = self.value(node, vectors, place, lanes, known.mask)
            else:
                one = known.scalars[n] = self.value(node, known.scalars, place, 0, None)
                if n in self.spread:
                    vectors[n] = splat(one, lanes)
