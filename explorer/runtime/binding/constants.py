"""Constants as kernels want them: in place, or laid out again, once while a program holds them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.codegen.build import Argument
from explorer.ir.program import Constant
from explorer.runtime.workers.arena import in_place
from explorer.tile.lowering.packing import packed_constant


class Constants:
    """The arrays that kernels read of a program's constants, and the tables of its kernels."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        self.constants = constants
        self._tables: dict[tuple[int, ...], np.ndarray] = {}
        self._held: dict[int, np.ndarray] = {}  # by identity: kernels know addresses alone

    def plain(self, name: str) -> np.ndarray:
        """A constant as it is."""
        return self._hold(self.constants[name].laid_out("in place", in_place))

    def packed(self, name: str, argument: Argument) -> np.ndarray:
        """A constant laid out for a micro-kernel."""
        assert argument.packing is not None
        return self._hold(packed_constant(argument.packing, self.constants[name]))

    def _hold(self, array: np.ndarray) -> np.ndarray:
        self._held[id(array)] = array
        return array

    def table(self, values: tuple[int, ...]) -> np.ndarray:
        """A table of int64."""
        if values not in self._tables:
            self._tables[values] = in_place(np.array(values or (0,), np.int64))
        return self._tables[values]
