"""Constants in the layout that kernels read, converted once per program."""

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
        """Create the arrays of these constants on first use."""
        self.constants = constants
        self._tables: dict[tuple[int, ...], np.ndarray] = {}
        self._alive: dict[int, np.ndarray] = {}  # by identity: kernels hold addresses only

    def plain(self, name: str) -> np.ndarray:
        """Return a constant in its own layout."""
        return self._keep_alive(self.constants[name].laid_out("in place", in_place))

    def packed(self, name: str, argument: Argument) -> np.ndarray:
        """Return a constant packed for a micro-kernel."""
        assert argument.packing is not None
        return self._keep_alive(packed_constant(argument.packing, self.constants[name]))

    def _keep_alive(self, array: np.ndarray) -> np.ndarray:
        self._alive[id(array)] = array
        return array

    def table(self, values: tuple[int, ...]) -> np.ndarray:
        """Return an int64 table."""
        if values not in self._tables:
            self._tables[values] = in_place(np.array(values or (0,), np.int64))
        return self._tables[values]
