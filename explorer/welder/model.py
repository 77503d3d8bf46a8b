"""What Welder talks about: kernels as operator tiles, and the form of the one that a merge would
anchor on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Compute, Kernel, Read, reads
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import ITEM_BYTES

Cut = tuple[tuple[str, int], ...]  # sizes by axis of the output


class Price(Protocol):
    """Roller's modelled time of a kernel."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Microseconds at the best tiling."""

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Microseconds at the best tiling inside of a tile, legal or not."""

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Why no tiling inside of a tile is legal, "" where one is."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a kernel is made of: contractions, other reductions, and the compute that writes an
    output last.
    """

    contractions: int
    reductions: int
    last: Compute
    parts: int  # computes that write an output (Concat has several)

    @property
    def is_map(self) -> bool:
        """Element by element, nothing summed."""
        return not self.contractions and not self.reductions

    @property
    def word(self) -> str:
        """The form in a word."""
        if self.contractions:
            return "contraction" if self.contractions == 1 else f"{self.contractions} contractions"
        return "elementwise" if self.is_map else "reduction"


@by_identity
def form_of(kernel: Kernel) -> Form:
    """The form of a kernel."""
    reduced = [c for c in kernel.computes if c.reduce]
    contracted = sum(contraction(c) is not None for c in reduced)
    last = stores(kernel)[-1]
    parts = sum(c.out == last.out for c in kernel.computes)
    return Form(contracted, len(reduced) - contracted, last, parts)


def bytes_at_hint(kernel: Kernel, tensor: str, env: ShapeEnv) -> int:
    """The size of a tensor under the hints."""
    spec = kernel.spec(tensor)
    total = ITEM_BYTES[spec.dtype]
    for d in spec.shape:
        total *= env.hint(d)
    return total


def home(device: Device, size: int) -> str:
    """The nearest memory that all units share and that holds so many bytes, with as many beside."""
    for m in device.levels:
        if m.shared and m.capacity_bytes is not None and size <= m.capacity_bytes // 2:
            return m.name
    return device.levels[-1].name


def points(compute: Compute, env: ShapeEnv) -> int:
    """How many values a compute writes, under the hints."""
    total = 1
    for a in compute.axes:
        total *= env.hint(a.extent)
    return total


def loads_of(kernel: Kernel, tensor: str) -> list[tuple[Compute, Read]]:
    """Every load of a tensor, with the compute it stands in."""
    return [(c, r) for c in kernel.computes for r in reads(c.expr) if r.tensor == tensor]


def is_point(read: Read, compute: Compute) -> bool:
    """Whether a load takes one axis a dim, each once: every element is read once."""
    names = [i.bare for i in read.index if isinstance(i, Affine) and i.terms]
    plain = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return (
        plain
        and None not in names
        and sorted(map(str, names))
        == sorted(a.name for a in compute.axes if a.extent != 1 or a.name in names)
    )


def is_once(read: Read, compute: Compute) -> bool:
    """Whether a load takes one axis a dim, summed or not, each at most once: no element is read
    twice for one result, in windows.
    """
    names = [i.bare for i in read.index if isinstance(i, Affine) and i.terms]
    plain = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return plain and None not in names and len(set(names)) == len(names)


def is_prefix(read: Read, compute: Compute) -> bool:
    """Whether a load stands at the compute's own leading axes alone: once for each of its rows."""
    if read.fill is not None or not all(isinstance(i, Affine) for i in read.index):
        return False
    names = [i.bare for i in read.index if isinstance(i, Affine) and i.terms]
    return names == [a.name for a in compute.axes[: len(names)]]


def is_row(read: Read, compute: Compute) -> bool:
    """Whether a load iterates over its last dim, at the compute's leading axes in the others."""
    if read.fill is not None or not all(isinstance(i, Affine) for i in read.index):
        return False
    lead = [i.bare for i in read.index[:-1] if isinstance(i, Affine) and i.terms]
    mine = [a.name for a in compute.axes]
    return None not in lead and lead == [n for n in mine if n in lead] and mine[: len(lead)] == lead
