"""Every value's shape, bytes and place in its root, for one binding after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import ShapeError
from explorer.grinder import UProgram
from explorer.ir.shapes.compiled_dims import compile_dims
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_shape
from explorer.ir.types import ITEM_BYTES
from explorer.ops.reference.frame import negative_extents


@dataclass(frozen=True, slots=True)
class Extents:
    """The numbers of a program's values under one binding, behind each other."""

    begins: Mapping[str, int]
    numbers: Sequence[int]

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a value."""
        begin = self.begins[name]
        rank = self.numbers[begin]
        return tuple(self.numbers[begin + 3 : begin + 3 + rank])

    def bytes(self, name: str) -> int:
        """The bytes that its elements take."""
        return self.numbers[self.begins[name] + 1]

    def offset_bytes(self, name: str) -> int:
        """Where it begins in its root's bytes."""
        return self.numbers[self.begins[name] + 2]


class ExtentsOf:
    """The numbers of a program's values, written down once: rank, bytes, offset, extents."""

    def __init__(self, program: UProgram) -> None:
        self.program = program
        self.begins: dict[str, int] = {}
        dims: list[Dim] = []
        for name, value in program.values.items():
            self.begins[name] = len(dims)
            offset = value.offset * ITEM_BYTES[value.type.element]
            dims += [len(value.type.dims), value.type.bytes, offset, *value.type.dims]
        self._numbers = compile_dims(dims)

    def __call__(self, sizes: Sizes) -> Extents:
        """Under a binding; ShapeError names a value whose shape that does not tell, or makes
        negative.
        """
        try:
            numbers = self._numbers(sizes)
        except KeyError:
            self._name_the_missing(sizes)
            raise
        if min(numbers, default=0) < 0:
            self._name_the_negative(sizes)
        return Extents(self.begins, numbers)

    def _name_the_negative(self, sizes: Sizes) -> None:
        for value in self.program.values.values():
            shape = evaluate_shape(value.type.dims, sizes)
            if min(shape, default=0) < 0:
                raise negative_extents(value.name, value.type, shape, sizes)

    def _name_the_missing(self, sizes: Sizes) -> None:
        for value in self.program.values.values():
            try:
                evaluate_shape(value.type.dims, sizes)
            except KeyError as missing:
                raise ShapeError(
                    f"the shape of {value.name} depends on {missing}, which no input's shape tells",
                    where=value.name,
                ) from None
