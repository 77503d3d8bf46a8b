"""Rammer's decision: what each unit runs and waits for, for one binding of the symbols."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A unit runs the tasks of a call from `first` up to, not including, `last`. One brick."""

    call: int  # position in RProgram.calls
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A unit waits until another has finished `step` of its own instructions."""

    unit: int
    step: int


Instruction = Run | Wait


@dataclass(frozen=True, slots=True)
class RProgram:
    """One launch: an instruction list for each unit.

    `calls` names the bindings; step n of a unit is its n-th Run. `kernels` is the implementation
    that each call runs with; empty: all run the first.
    """

    units: tuple[tuple[Instruction, ...], ...]
    calls: tuple[str, ...]
    kernels: tuple[int, ...] = ()

    def kernel(self, call: int) -> int:
        """Return the implementation of a call."""
        return self.kernels[call] if self.kernels else 0
