"""Portable programs of compilations: the launches of a plan, with addresses as places.

The plan is that of a run; only its constants, which have no address yet, lie in one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from explorer.codegen.build import KernelCode, print_kernel
from explorer.codegen.cpu.object_code import MachineCode, key_of
from explorer.compiler.inputs import checked_sizes
from explorer.errors import BadOption
from explorer.grinder import LibraryTask
from explorer.ir.calls import efficient_binding
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.ir.types import numpy_dtype
from explorer.ops.interpreter.evaluate import too_deep
from explorer.portable.portable_program import (
    Place,
    PortableCall,
    PortableKernel,
    PortableLaunch,
    PortablePointer,
    PortableProgram,
    PortableTensor,
)
from explorer.runtime.binding.assemble import assemble
from explorer.runtime.binding.launch_code import LaunchCode, LaunchInputs, Step
from explorer.runtime.binding.tables import (
    ABSOLUTE,
    ARENA,
    FIRST_INPUT,
    SCRATCH,
    Address,
    ArgumentBlocks,
    Constants,
    ValuePlaces,
)
from explorer.runtime.executable import Executable
from explorer.runtime.planning.plan import Plan
from explorer.runtime.workers.aligned_memory import ALIGNMENT
from explorer.targets.cpu import Cpu

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

__all__ = [
    "Place",
    "PortableCall",
    "PortableKernel",
    "PortableLaunch",
    "PortablePointer",
    "PortableProgram",
    "PortableTensor",
    "ProgramBuilder",
    "WeightBlock",
    "executable_for",
    "portable",
    "refuse",
]
WEIGHTS = -1  # the base of constants and tables, which have no address before they are placed
SPACES = {ABSOLUTE: "n", WEIGHTS: "w", ARENA: "a", SCRATCH: "s"}


def portable(c: Compilation, sizes: Sizes | None = None, threads: int = 1) -> PortableProgram:
    """Return a compilation as a program for some units, with control flow inside of it.

    Args:
        c: A compilation for a CPU, this one or that of a data sheet.
        sizes: A size for each symbol; by default those of `c.hint`.
        threads: The number of units.

    Raises:
        BadOption: Its kernels are no code of a CPU, or the program needs Python while it runs.
        ShapeError, BoundError: The sizes are not possible.
    """
    executable = executable_for(c, threads)
    every = checked_sizes(c.model, {**c.hint, **(sizes or {})}, c.hint)
    shapes: Mapping[str, np.ndarray] = {}
    if executable.shape_computation is not None:
        every, shapes = executable.shape_computation.of(every)
    executable.check_relations(every)
    plan = executable.plan(every)
    return ProgramBuilder(c, plan, executable, tuple(shapes.values())).program()


def executable_for(c: Compilation, threads: int) -> Executable:
    """Return a compilation's program as an executable whose kernels are only printed.

    Raises:
        BadOption: Its kernels are no code of a CPU, or the program needs Python while it runs.
    """
    if not isinstance(c.target, Cpu):
        raise BadOption(
            f"{c.model.name} was compiled for {c.device.name}, whose kernels are no CPU code",
            where=c.device.name,
            expected="a CPU, this one or that of a data sheet",
            try_='explorer.compile(model, "cpu-avx2")',
        )
    rammer = replace(c.options.rammer, threads=threads)
    if c.options.rammer != rammer:
        c = c.with_options(rammer=rammer)
    program = c.executable.program
    executable = Executable(program, dict(_printed_calls(program, c)), c.device)
    if executable.frames is not None:
        refuse(c, "values decide shapes, or calls that only Python can make")
    written = [executable.tasks.inputs[n] for n in executable.planner.written_inputs]
    if written:
        raise BadOption(
            f"{c.model.name} was compiled to write into its inputs {', '.join(written)}, which a "
            "program of its own leaves as they are: compile it without `donate`",
            where=written[0],
        )
    return executable


def _printed_calls(program: Program, c: Compilation) -> Iterator[tuple[str, KernelCode]]:
    """Yield the printed code of every kernel call, of both of its tilings."""
    for binding in program.kernel_calls:
        call = binding.kernel_call
        tilings = {binding.name: call.tiling or Tiling()}
        if call.efficient is not None:
            tilings[efficient_binding(binding.name)] = call.efficient
        for name, tiling in tilings.items():
            source, tiled, arguments = print_kernel(call.kernel, tiling, program.env, c.device)
            key = key_of(source, c.device.isa)
            machine = MachineCode(key, 0, b"", f"kernel_{key}", 0.0)  # none is needed to plan
            yield name, KernelCode(source, machine, tiled, arguments, c.device.isa)


class WeightBlock(ValuePlaces):
    """Places of values whose constants lie in one block, in the order of first use."""

    def __init__(self, plan: Plan, constants: Constants) -> None:
        """Create an empty block."""
        super().__init__(plan, constants)
        self.offsets: dict[int, int] = {}
        self.size = 0

    def absolute(self, array: np.ndarray) -> Address:
        """Return the place of an array in the block."""
        if not array.flags.c_contiguous:
            array = array.copy()
        if id(array) not in self.offsets:
            self.alive.append(array)
            self.offsets[id(array)] = self.size
            self.size += _aligned(array.nbytes + ALIGNMENT)  # wide loads read past the end
        return Address(WEIGHTS, self.offsets[id(array)])

    def block(self) -> bytes:
        """Return the block's bytes."""
        block = bytearray(self.size)
        for array in self.alive:
            begin = self.offsets[id(array)]
            block[begin : begin + array.nbytes] = array.tobytes()
        return bytes(block)


class ProgramBuilder:
    """The portable program of one plan; `shapes` are inputs that the sizes determine."""

    def __init__(
        self,
        c: Compilation,
        plan: Plan,
        executable: Executable,
        shapes: Sequence[np.ndarray] = (),
    ) -> None:
        """Create the builder of a plan's program."""
        self.c, self.plan, self.executable = c, plan, executable
        self.codes, self.shapes = executable.codes, shapes
        self.places: ValuePlaces = WeightBlock(plan, executable.constants)
        self.blocks = ArgumentBlocks(self.places, self.codes)
        keys = dict.fromkeys(code.key for code in self.codes.values())
        self.number = {key: n for n, key in enumerate(keys)}

    def program(self) -> PortableProgram:
        """Return the program."""
        plan, tasks = self.plan, self.plan.program
        launches = tuple(self.launch(code) for code in self.launch_codes())
        direct = set(plan.direct.values())
        outputs = tuple(map(self.tensor, tasks.output_names, tasks.outputs))
        copies = tuple(
            (n, self.place(self.places.of(name)), self.bytes_of(name))
            for n, name in enumerate(tasks.outputs)
            if n not in direct
        )
        inputs = tasks.inputs[: len(tasks.inputs) - len(self.shapes)]
        sources = {code.key: code.source for code in self.codes.values()}
        assert isinstance(self.places, WeightBlock)
        return PortableProgram(
            self.c.model.name,
            self.c.device.name,
            self.c.device.isa,
            tuple(sorted((name, plan.sizes[name]) for name in self.c.hint)),
            tuple(self.tensor(name, name) for name in inputs),
            outputs,
            tuple(PortableKernel(f"kernel_{key}", sources[key]) for key in self.number),
            tuple(map(self.place, self.blocks.rows)),
            launches,
            copies,
            _aligned(plan.placed.bytes),
            _aligned(self.blocks.scratch_bytes),
            self.places.block(),
            self.executable.units,
        )

    def bytes_of(self, name: str) -> int:
        """Return the bytes of a value's elements."""
        return self.plan.extents.bytes(name)

    def launch_codes(self) -> list[LaunchCode]:
        """Return the launches; all control flow is inside of them."""
        plan = self.plan
        frames, alone, groups = plan.placed.frames, plan.alone, plan.unit_assignments
        inputs = LaunchInputs(
            plan.program,
            plan.schedules,
            self.executable.units,
            plan.sizes,
            self.codes,
            frames,
            alone,
            groups,
        )
        return [self.device_step(step) for step in assemble(inputs)]

    def device_step(self, step: Step) -> LaunchCode:
        """Return a step as a launch.

        Raises:
            BadOption: Python makes the step.
        """
        match step:
            case LaunchCode():
                return step
            case LibraryTask(name=name, call=call):
                refuse(self.c, f"{name!r} calls {call.library}.{call.function}")
            case other:
                refuse(self.c, f"Python decides {other.task.name!r}")

    def launch(self, code: LaunchCode) -> PortableLaunch:
        """Return a launch with its tables."""
        self.blocks.add(code)
        calls = tuple(
            PortableCall(
                self.number[self.codes[o.binding].key],
                self.blocks.block_of[o.name].start,
                o.name,
                tuple(sorted(o.origin)),
            )
            for o in code.operators
        )
        first, *others = (tuple(map(tuple, rows.tolist())) for rows in code.rows)
        return PortableLaunch(
            first,
            calls,
            tuple(self.place(self.places.of(name)) for name in code.slots),
            tuple(
                PortablePointer(p.call, p.at, p.source, p.step, p.begin, p.apart)
                for p in code.pointers
            ),
            code.registers,
            code.stack,
            tuple(too_deep(*recursion).sentence for recursion in code.recursions),
            code.units,
            tuple(others),
        )

    def place(self, address: Address) -> Place:
        """Return an address by the letter of its space."""
        inputs = len(self.plan.program.inputs)
        if address.base < FIRST_INPUT:
            return SPACES[address.base], 0, address.offset
        number = address.base - FIRST_INPUT
        if number < inputs - len(self.shapes):
            return "i", number, address.offset
        if number < inputs:
            at = self.places.absolute(self.shapes[number - inputs])
            return "w", 0, at.offset + address.offset
        return "o", number - inputs, address.offset

    def tensor(self, name: str, value: str) -> PortableTensor:
        """Return an input or output."""
        element = self.plan.program.values[value].type.element
        return PortableTensor(name, str(numpy_dtype(element)), self.plan.shape(value))


def refuse(c: Compilation, why: str) -> NoReturn:
    """Raise BadOption: a compilation's program needs Python while it runs."""
    raise BadOption(
        f"{c.model.name} needs Python while it runs: {why}",
        where=c.model.name,
        expected="a program of kernels, loops and branches alone",
        try_='Options(grinder=Options(schedule="device")), or a model without that operator',
    )


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT
