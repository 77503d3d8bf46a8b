"""Calls of CUDA's driver in each run, by addresses: copies, launches, synchronisation.

Arrays of numba-cuda validate and describe themselves at each use, which takes longer than the run
of a small program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

WORD_BYTES = 8  # of a kernel's argument: addresses and counts


class StreamCalls:
    """Driver calls in the order of one stream.

    Raises:
        RuntimeError: A call fails; the message is CUDA's name of the error.
    """

    def __init__(self, stream: int) -> None:
        """Use a stream, given by its handle."""
        self.driver: Any = import_module("cuda.bindings.driver")
        self.stream = stream

    def copy_to_device(self, to: int, array: np.ndarray) -> None:
        """Copy pinned memory to the device."""
        self.check(self.driver.cuMemcpyHtoDAsync(to, array.ctypes.data, array.nbytes, self.stream))

    def copy_to_host(self, array: np.ndarray, at: int) -> None:
        """Copy from the device to this machine; the data are there after `wait`."""
        self.check(self.driver.cuMemcpyDtoHAsync(array.ctypes.data, at, array.nbytes, self.stream))

    def copy_on_device(self, to: int, at: int, count: int) -> None:
        """Copy `count` bytes on the device."""
        self.check(self.driver.cuMemcpyDtoDAsync(to, at, count, self.stream))

    def wait(self) -> None:
        """Wait until all previous calls are done."""
        self.check(self.driver.cuStreamSynchronize(self.stream))

    def launch(
        self, function: Any, blocks: int, threads: int, shared_bytes: int, arrays: Sequence[Any]
    ) -> Callable[[], None]:
        """Return a function that launches a kernel of Numba's on flat arrays of the device."""
        words = [word for array in arrays for word in _words(array)]
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes)
        return _Launch(self, function, shape, words, arrays)

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return the driver calls of `work` as a CUDA graph, which one call replays."""
        d, mode = self.driver, self.driver.CUstreamCaptureMode
        self.check(d.cuStreamBeginCapture(self.stream, mode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            work()
        finally:
            answer = d.cuStreamEndCapture(self.stream)
        self.check(answer)
        graph = d.cuGraphInstantiate(answer[1], 0)
        self.check(graph)
        return lambda: self.check(d.cuGraphLaunch(graph[1], self.stream))

    def check(self, answer: tuple[Any, ...]) -> None:
        """Raise the error that a driver call returned, if any."""
        if int(answer[0]):
            raise RuntimeError(answer[0].name)


def address(array: Any) -> int:
    """Return the address of an array of the device."""
    return int(array.device_ctypes_pointer.value)


def _words(array: Any) -> tuple[int, ...]:
    """Return the kernel arguments of a flat array, as numba-cuda's dispatcher passes them.

    They are no owner and no parent, elements, item bytes, address, extent, and stride in bytes.
    """
    count, each = int(array.size), int(array.dtype.itemsize)
    return (0, 0, count, each, address(array), count, each)


class _Launch:
    """A kernel with its launch arguments: words, each at an address, and `arrays` kept alive."""

    def __init__(
        self,
        calls: StreamCalls,
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
        calls.check(launch(self.function, *self.shape, calls.stream, at, 0))
