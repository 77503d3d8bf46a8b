"""Welder's model: kernels as operator tiles, and the form that a merge would anchor on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Compute, Kernel, Read, reads
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import stores
from explorer.ir.types import ITEM_BYTES

Cut = tuple[tuple[str, int], ...]  # sizes by axis of the output


class Price(Protocol):
    """A price function: Roller's modelled time of a kernel."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return the microseconds at the best tiling."""

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return the microseconds at the best tiling inside of a tile, legal or not."""

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling inside of a tile is legal, "" if one is."""


@dataclass(frozen=True, slots=True)
class KernelForm:
    """The parts of a kernel: contractions, other reductions, and the compute that writes last."""

    contractions: int
    reductions: int
    last: Compute
    parts: int  # computes that write an output (Concat has several)

    @property
    def is_map(self) -> bool:
        """Return True if the kernel is element-wise and reduces nothing."""
        return not self.contractions and not self.reductions

    @property
    def word(self) -> str:
        """The form in a word."""
        if self.contractions:
            return "contraction" if self.contractions == 1 else f"{self.contractions} contractions"
        return "elementwise" if self.is_map else "reduction"


@by_identity
def form_of(kernel: Kernel) -> KernelForm:
    """Return the form of a kernel."""
    reduced = [c for c in kernel.computes if c.reduce]
    contracted = sum(contraction(c) is not None for c in reduced)
    last = stores(kernel)[-1]
    parts = sum(c.out == last.out for c in kernel.computes)
    return KernelForm(contracted, len(reduced) - contracted, last, parts)


def bytes_at_hint(kernel: Kernel, tensor: str, env: ShapeEnv) -> int:
    """Return the size of a tensor under the hints, in bytes."""
    spec = kernel.spec(tensor)
    total = ITEM_BYTES[spec.dtype]
    for d in spec.shape:
        total *= env.hint(d)
    return total


def home(device: Device, size: int) -> str:
    """Return the nearest memory that all units share and that holds twice as many bytes."""
    for m in device.levels:
        if m.shared and m.capacity_bytes is not None and size <= m.capacity_bytes // 2:
            return m.name
    return device.levels[-1].name


def points(compute: Compute, env: ShapeEnv) -> int:
    """Return the number of values that a compute writes, under the hints."""
    total = 1
    for a in compute.axes:
        total *= env.hint(a.extent)
    return total


def loads_of(kernel: Kernel, tensor: str) -> list[tuple[Compute, Read]]:
    """Return every load of a tensor, with the compute that it stands in."""
    return [(c, r) for c in kernel.computes for r in reads(c.expr) if r.tensor == tensor]


def is_point(read: Read, compute: Compute) -> bool:
    """Return True if a load has one axis a dim, each once: every element is read once."""
    names = [i.bare for i in read.index if isinstance(i, Affine) and i.terms]
    plain = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return (
        plain
        and None not in names
        and sorted(map(str, names))
        == sorted(a.name for a in compute.axes if a.extent != 1 or a.name in names)
    )


def is_once(read: Read, compute: Compute) -> bool:
    """Return True if a load has one axis a dim, reduced or not, each at most once.

    Then no element is read twice for one result, as in windows.
    """
    names = [i.bare for i in read.index if isinstance(i, Affine) and i.terms]
    plain = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return plain and None not in names and len(set(names)) == len(names)


def is_prefix(read: Read, compute: Compute) -> bool:
    """Return True if a load is at the compute's leading axes alone: once for each row."""
    if read.fill is not None or not all(isinstance(i, Affine) for i in read.index):
        return False
    names = [i.bare for i in read.index if isinstance(i, Affine) and i.terms]
    return names == [a.name for a in compute.axes[: len(names)]]


def is_row(read: Read, compute: Compute) -> bool:
    """Return True if a load iterates over its last dim, at leading axes in the others."""
    if read.fill is not None or not all(isinstance(i, Affine) for i in read.index):
        return False
    lead = [i.bare for i in read.index[:-1] if isinstance(i, Affine) and i.terms]
    mine = [a.name for a in compute.axes]
    return None not in lead and lead == [n for n in mine if n in lead] and mine[: len(lead)] == lead
