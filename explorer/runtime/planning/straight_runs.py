"""Kernel calls without control flow between them, as Rammer is told of them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.grinder import OperatorTask


@dataclass(frozen=True, slots=True)
class Run:
    """A straight run as Rammer is told of it, but for the numbers that a binding gives."""

    key: str
    operators: tuple[OperatorTask, ...]
    reads: tuple[tuple[int, ...], ...]
    aligned: tuple[tuple[int, ...], ...]
