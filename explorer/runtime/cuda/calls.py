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
        self, function: Any, blocks: int, threads: int, shared_bytes: int, arrays: Sequence[Any]
    ) -> Callable[[], None]:
        """What launches a kernel of Numba's on flat arrays of the device, each time."""
        words = [word for array in arrays for word in _words(array)]
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes)
        return _Launch(self, function, shape, words, arrays)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """What is asked for by some work, as a CUDA graph: it is asked for again by one call."""
        d, mode = self.driver, self.driver.CUstreamCaptureMode
        self.done(d.cuStreamBeginCapture(self.stream, mode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            work()
        finally:
            answer = d.cuStreamEndCapture(self.stream)
        self.done(answer)
        made = d.cuGraphInstantiate(answer[1], 0)
        self.done(made)
        return lambda: self.done(d.cuGraphLaunch(made[1], self.stream))

    def done(self, answer: tuple[Any, ...]) -> None:
        """Raises what a call of the driver's answers, if it is an error."""
        if int(answer[0]):
            raise RuntimeError(answer[0].name)


def address(array: Any) -> int:
    """Where an array of the device begins."""
    return int(array.device_ctypes_pointer.value)


def _words(array: Any) -> tuple[int, ...]:
    """What a kernel of Numba's takes of a flat array, as numba-cuda's dispatcher gives it: nobody
    who owns it and no parent, elements, bytes of one, where it begins, extent, stride in bytes.
    """
    count, each = int(array.size), int(array.dtype.itemsize)
    return (0, 0, count, each, address(array), count, each)


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
