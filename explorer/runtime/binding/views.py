"""NumPy views of the values of an arena, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np

from explorer.ir.types import numpy_dtype
from explorer.runtime.binding.arena import Arena
from explorer.runtime.binding.tables import FIRST_INPUT

Array = np.ndarray
ArrayGetter: TypeAlias = Callable[[], Array]


class Views:
    """Getters of a value's array: always the same array, or a part of a run's input or output."""

    def __init__(self, arena: Arena) -> None:
        """Create the views of an arena."""
        self.arena, self.bound = arena, arena.bound
        self.values = arena.bound.plan.program.values

    def of(self, name: str, like: str = "") -> ArrayGetter:
        """Return the getter of a value; with the shape of `like`, if given."""
        value, shape = self.values[name], self.bound.plan.shape(like or name)
        places = self.bound.places
        if value.home == "constant":
            return _constant_getter(self._cut(name, shape)(places.constants.plain(value.root)))
        if value.home == "shape":
            return _constant_getter(self._cut(name, shape)(places.shape_value(value.root)))
        place = places.of(name)
        if place.base < FIRST_INPUT:
            return _constant_getter(self._in_arena(name, place.offset, shape))
        at, arrays, cut = place.base - FIRST_INPUT, self.arena.arrays, self._cut(name, shape)
        return lambda: cut(arrays[at])

    def output(self, position: int) -> ArrayGetter:
        """Return the getter of an output's complete array."""
        at = len(self.bound.plan.program.inputs) + position
        arrays = self.arena.arrays
        return lambda: arrays[at]

    def apart(self, a: str, b: str) -> bool:
        """Return True if two values lie at different places."""
        return not self.values[a].is_at(self.values[b])

    def _cut(self, name: str, shape: tuple[int, ...]) -> Callable[[Array], Array]:
        """Return a function from a root's array to a value's part of it."""
        item = numpy_dtype(self.values[name].type.element).itemsize
        begin, count = self.bound.plan.offset_bytes(name) // item, prod(shape)

        def cut(array: Array) -> Array:
            if array.shape == shape:
                return array
            return array.reshape(-1)[begin : begin + count].reshape(shape)

        return cut

    def _in_arena(self, name: str, offset: int, shape: tuple[int, ...]) -> Array:
        dtype = numpy_dtype(self.values[name].type.element)
        count = prod(shape) * dtype.itemsize
        return self.arena.memory[offset : offset + count].view(dtype).reshape(shape)


def _constant_getter(array: Array) -> ArrayGetter:
    return lambda: array
