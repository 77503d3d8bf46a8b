"""Shape, bytes and offset of every value, for one binding after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import ShapeError
from explorer.grinder import UProgram
from explorer.ir.compiled_dims import compile_dims
from explorer.ir.dims import Dim, Sizes, evaluate_shape
from explorer.ir.types import ITEM_BYTES
from explorer.ops.interpreter.frame import negative_extents


@dataclass(frozen=True, slots=True)
class Extents:
    """The numbers of a program's values under one binding, in one sequence."""

    begins: Mapping[str, int]
    numbers: Sequence[int]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the extents of a value."""
        begin = self.begins[name]
        rank = self.numbers[begin]
        return tuple(self.numbers[begin + 3 : begin + 3 + rank])

    def bytes(self, name: str) -> int:
        """Return the bytes of its elements."""
        return self.numbers[self.begins[name] + 1]

    def offset_bytes(self, name: str) -> int:
        """Return its offset in its root's bytes."""
        return self.numbers[self.begins[name] + 2]


class ExtentsOf:
    """Formulas of a program's values, compiled once: rank, bytes, offset, extents."""

    def __init__(self, program: UProgram) -> None:
        """Compile the formulas of a program."""
        self.program = program
        self.begins: dict[str, int] = {}
        dims: list[Dim] = []
        for name, value in program.values.items():
            self.begins[name] = len(dims)
            offset = value.offset * ITEM_BYTES[value.type.element]
            dims += [len(value.type.dims), value.type.bytes, offset, *value.type.dims]
        self._numbers = compile_dims(dims)

    def __call__(self, sizes: Sizes) -> Extents:
        """Return the extents under a binding.

        Raises:
            ShapeError: The binding does not determine a value's shape, or makes it negative.
        """
        try:
            numbers = self._numbers(sizes)
        except KeyError:
            self._raise_missing(sizes)
            raise
        if min(numbers, default=0) < 0:
            self._raise_negative(sizes)
        return Extents(self.begins, numbers)

    def _raise_negative(self, sizes: Sizes) -> None:
        for value in self.program.values.values():
            shape = evaluate_shape(value.type.dims, sizes)
            if min(shape, default=0) < 0:
                raise negative_extents(value.name, value.type, shape, sizes)

    def _raise_missing(self, sizes: Sizes) -> None:
        for value in self.program.values.values():
            try:
                evaluate_shape(value.type.dims, sizes)
            except KeyError as missing:
                raise ShapeError(
                    f"the shape of {value.name} depends on {missing}, which no input's shape "
                    "determines",
                    where=value.name,
                ) from None
