"""What is asked of CUDA's driver for each run, by addresses: copies, launches, waiting.

Arrays of numba-cuda check and describe themselves at each use, which takes longer than the run of a
small program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

WORD_BYTES = 8  # of whatever a kernel is given: addresses and counts


class Calls:
    """In the order of one stream. Raises RuntimeError with the name that CUDA has for an error."""

    def __init__(self, stream: int) -> None:
        self.driver: Any = import_module("cuda.bindings.driver")
        self.stream = stream

    def up(self, to: int, array: np.ndarray) -> None:
        """Pinned memory -> the device."""
        self.done(self.driver.cuMemcpyHtoDAsync(to, array.ctypes.data, array.nbytes, self.stream))

    def down(self, array: np.ndarray, at: int) -> None:
        """The device -> this machine; there when `wait` is over."""
        self.done(self.driver.cuMemcpyDtoHAsync(array.ctypes.data, at, array.nbytes, self.stream))

    def across(self, to: int, at: int, count: int) -> None:
        """So many bytes on the device."""
        self.done(self.driver.cuMemcpyDtoDAsync(to, at, count, self.stream))

    def wait(self) -> None:
        """Until all that was asked for is done."""
        self.done(self.driver.cuStreamSynchronize(self.stream))

    def launch(
        self, code: Any, blocks: int, threads: int, shared_bytes: int, arrays: Sequence[Any]
    ) -> Callable[[], None]:
        """What launches compiled code of numba-cuda on arrays of the device, each time."""
        given: list[Any] = []
        for type_, array in zip(code.argument_types, arrays, strict=True):
            code._prepare_args(type_, array, 0, [], given)
        words = [getattr(x, "value", x) for x in given]
        function = code._codelibrary.get_cufunc().handle
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes)
        return _Launch(self, function, shape, words, arrays)

    def done(self, answer: tuple[Any, ...]) -> None:
        """Raises what a call of the driver's answers, if it is an error."""
        if int(answer[0]):
            raise RuntimeError(answer[0].name)


class _Launch:
    """A kernel with what it is launched with: words, each at an address, of `arrays` that stay."""

    def __init__(
        self,
        calls: Calls,
        function: Any,
        shape: tuple[int, ...],
        words: Sequence[int],
        arrays: Sequence[Any],
    ) -> None:
        self.calls, self.function, self.shape, self.arrays = calls, function, shape, arrays
        self.words = (ctypes.c_int64 * len(words))(*words)
        first = ctypes.addressof(self.words)
        each = (first + WORD_BYTES * n for n in range(len(words)))
        self.pointers = (ctypes.c_void_p * len(words))(*each)

    def __call__(self) -> None:
        calls, at = self.calls, ctypes.addressof(self.pointers)
        launch = calls.driver.cuLaunchKernel
        calls.done(launch(self.function, *self.shape, calls.stream, at, 0))
