"""One compiled kernel alone on prepared operands, several runs a launch, on one or more threads."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from time import perf_counter_ns

import numpy as np

from explorer.codegen.build import Argument, KernelCode, build_kernel
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim, evaluate_shape
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Kernel
from explorer.ir.tile_program import Packing
from explorer.ir.types import DType, numpy_dtype
from explorer.measure.compare import Measurement, measure
from explorer.measure.turns import Clock
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.aligned_memory import address_of, aligned_array, in_place
from explorer.runtime.workers.launch import Launch, Row, rows_of
from explorer.runtime.workers.workers import teams
from explorer.tile.lowering.packing import pack_constant

LAUNCH_US = 200.0  # at most so long are the runs that one launch does, if a run is not longer
MOST_RUNS = 1000  # in a launch
FEWEST_LAUNCHES = 3  # also where they take longer than the time that there is; chosen
GUARD_BYTES = 64


class Operands:
    """Arrays of one kernel under one binding, shared by all tilings that are tried.

    `inputs` are arrays by name; missing ones are random: floats between 0.1 and 1, integers from 1
    to 4. Every array is aligned to a cache line.
    """

    def __init__(
        self, kernel: Kernel, sizes: Sizes, inputs: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Create the arrays."""
        named_inputs = inputs or {}
        random = np.random.default_rng(0)
        self.kernel, self.sizes = kernel, sizes
        self.arrays = {
            name: in_place(np.asarray(named_inputs[name], numpy_dtype(kernel.dtype(name))))
            if name in named_inputs
            else _by_chance(random, evaluate_shape(kernel.shape(name), sizes), kernel.dtype(name))
            for name in kernel.inputs
        }
        self.outputs: dict[str, np.ndarray] = {}
        for name in kernel.outputs:
            shape = evaluate_shape(kernel.shape(name), sizes)
            self.outputs[name] = aligned_array(shape, numpy_dtype(kernel.dtype(name)))
            self.outputs[name].fill(0)  # each page is there before the first run
        self._packed: dict[Packing, np.ndarray] = {}

    def packed(self, packing: Packing, name: str) -> np.ndarray:
        """Return a constant in the layout of a micro-kernel."""
        if packing not in self._packed:
            self._packed[packing] = pack_constant(packing, self.arrays[name])
        return self._packed[packing]


class PreparedKernel:
    """A compiled kernel with its arguments, ready to run on some threads.

    Each thread runs an equal contiguous share of the tasks.
    """

    def __init__(self, code: KernelCode, operands: Operands, threads: int = 1) -> None:
        """Allocate arguments and scratch, and find how many runs fit in a launch."""
        if threads < 1:
            raise BadOption(f"a kernel runs on 1 thread or more, found {threads}", actual=threads)
        self.code, self.operands, self.threads = code, operands, threads
        self._keep: list[np.ndarray] = []
        self.blocks = [self._block() for _ in range(threads)]
        self._launches: dict[int, Launch] = {}
        self.runs = self._fitting()

    @property
    def output(self) -> np.ndarray:
        """The output of the last run; all tilings of the same operands share it."""
        return self.operands.outputs[self.operands.kernel.output]

    def launch(self, runs: int | None = None) -> None:
        """Run the kernel `runs` times, or `self.runs`, without returning to Python in between."""
        count = self.runs if runs is None else runs
        if count not in self._launches:
            self._launches[count] = self._assembled(count)
        self._launches[count].run(teams())

    def best_us(self, budget_us: float = 3000.0, clock: Clock = perf_counter_ns) -> float:
        """Return microseconds of the best run within a time budget, of at least 3 launches.

        Some launches are undisturbed, whatever else the machine does.
        """
        best, begin = float("inf"), clock()
        done = 0
        while done < FEWEST_LAUNCHES or (clock() - begin) / 1e3 < budget_us:
            start = clock()
            self.launch()
            best = min(best, (clock() - start) / 1e3 / self.runs)
            done += 1
        return best

    def measure(self, seconds: float = 0.05, clock: Clock = perf_counter_ns) -> Measurement:
        """Return the median time of a run with its interval."""
        measured = measure(self.launch, seconds, clock)
        low, high = measured.low_us / self.runs, measured.high_us / self.runs
        return Measurement(
            measured.median_us / self.runs, low, high, measured.n * self.runs, measured.machine
        )

    def _fitting(self) -> int:
        """Return how many runs fit into a launch."""
        self.launch(1)
        begin = perf_counter_ns()
        self.launch(1)
        us = max(0.05, (perf_counter_ns() - begin) / 1e3)
        return max(1, min(MOST_RUNS, int(LAUNCH_US / us)))

    def _assembled(self, runs: int) -> Launch:
        """Assemble a launch of so many runs."""
        tasks = self.code.tasks(self.operands.sizes)
        rows = [self._rows(unit, tasks, runs) for unit in range(self.threads)]
        launch = Launch([rows_of(r) for r in rows], 1, 0)
        for unit, block in enumerate(self.blocks):
            launch.code[unit, 0] = (self.code.address, address_of(block))
        return launch

    def _rows(self, unit: int, tasks: int, runs: int) -> list[Row]:
        """Return one thread's instructions: for each run its share of the tasks, then a barrier."""
        first, last = tasks * unit // self.threads, tasks * (unit + 1) // self.threads
        of_one_run: list[Row] = [(isa.RUN, 0, first, last, 0)] if first < last else []
        if self.threads > 1:
            of_one_run.append((isa.BARRIER, 0, 0, 0, 0))
        return [*of_one_run * runs, (isa.END, 0, 0, 0, 0)]

    def _block(self) -> np.ndarray:
        """Return the argument block of one thread, with its own scratch."""
        words = [self._word(a) for a in self.code.arguments]
        return np.array(words or [0], np.int64)

    def _word(self, a: Argument) -> int:
        """Return the word that passes an argument."""
        operands = self.operands
        match a.kind:
            case "tensor" if a.name in operands.outputs:
                array = operands.outputs[a.name]
            case "tensor":
                array = operands.arrays[a.name]
            case "packed":
                assert a.packing is not None
                array = operands.packed(a.packing, a.name)
            case "table":
                array = in_place(np.array(a.values or (0,), np.int64))
            case "scratch":
                count = evaluate_dim(a.elements, operands.sizes) * a.item_bytes + GUARD_BYTES
                array = aligned_array((count,), np.dtype(np.uint8))
                array.fill(0)
            case _:
                return operands.sizes[a.name]
        self._keep.append(array)
        return address_of(array) + a.begin_bytes(operands.sizes)


def prepare(
    kernel: Kernel,
    tiling: Tiling,
    operands: Operands,
    device: Device,
    threads: int = 1,
    env: ShapeEnv = ShapeEnv(),
) -> PreparedKernel:
    """Compile a kernel under a tiling, or take it from the cache, and bind it to operands.

    This machine must be able to run the device's code.
    """
    code = build_kernel(kernel, tiling, env, device)
    return PreparedKernel(code, operands, threads)


def _by_chance(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Return a random aligned array without zeros, denormals or NaN."""
    array = aligned_array(shape, numpy_dtype(dtype))
    count = prod(shape)
    if is_float(dtype):
        values: np.ndarray = random.random(count, np.float32) * np.float32(0.9) + np.float32(0.1)
    else:
        values = random.integers(1, 2 if dtype == "bool" else 5, count)
    np.copyto(array, values.reshape(shape).astype(array.dtype))
    return array
