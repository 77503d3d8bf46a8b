"""A compiled program as one persistent kernel for a GPU: source, launches, and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.cached_property import cached_property
from explorer.codegen.build import Argument
from explorer.codegen.cuda.assemble import Assembled, assemble_program, why_not
from explorer.codegen.cuda.build import BlockCode, Tensor, print_block
from explorer.codegen.cuda.persistent import ProgramSource, print_program
from explorer.devices.model import Device
from explorer.errors import BadOption, CheckFailed
from explorer.grinder.model import straights
from explorer.ir.calls import efficient_binding
from explorer.ir.dims import evaluate_dim
from explorer.ir.dtypes import ITEM_BYTES, numpy_dtype
from explorer.ir.program import Program
from explorer.plain_text import counted
from explorer.printed import Printed
from explorer.runtime.binding.assemble import assemble
from explorer.runtime.binding.launch_code import (
    HostBranch,
    HostLoop,
    LaunchCode,
    LaunchInputs,
    Step,
)
from explorer.runtime.cuda.deadlock import find_deadlock
from explorer.runtime.cuda.tables import (
    LAUNCHES,
    PATIENCE_NS,
    AccessedBytes,
    Tables,
    split_launch,
    tables_of,
)
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.plan import Plan

LOADED_BYTES = 16  # of a vector load, aligned to its size
ALIGNED_BYTES = 256  # alignment of values, as of CUDA's allocations
OPERATIONS = (
    *("RUN", "WAIT", "BARRIER", "LOOK", "BRANCH", "LOOP", "LET", "NEXT", "STORE", "COPY"),
    *("FILL", "JUMP", "POINT", "CALL", "RETURN", "DEEPEST", "QUIT"),
)
NUMBERS = {name: int(getattr(isa, name)) for name in OPERATIONS}


@dataclass(frozen=True, slots=True)
class BlockArguments:
    """The tensors of a call's thread block, in the order in which its code takes them."""

    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A part of the one memory."""

    begin: int
    bytes: int


class DeviceProgram(Printed):
    """All kernel calls of a plan in one kernel, with a block for each unit of the plan.

    Its waits give up when the kernel has run for `patience_ns`.
    """

    def __init__(
        self, program: Program, plan: Plan, device: Device, patience_ns: int = PATIENCE_NS
    ) -> None:
        """Print the kernel and assemble its launches.

        Raises:
            BadOption: A kernel call has no thread block, or only Python makes a decision.
            CheckFailed: Units would wait forever.
        """
        self.program, self.plan, self.device = program, plan, device
        self.patience_ns = patience_ns
        self.operators = {o.name: o for p in straights(plan.program.parts) for o in p.operators}
        for s in plan.schedules.values():
            if reason := find_deadlock(s.programs):
                raise CheckFailed(f"{program.name} would deadlock: {reason}")
        self.blocks = dict(self._printed(aligned=True))
        self.steps = assemble(self._launch_inputs())
        _check_steps(self.steps)
        if not self._is_aligned():
            self.blocks = dict(self._printed(aligned=False))
        functions = dict.fromkeys(code.function for code in self.blocks.values())
        number = {function: n for n, function in enumerate(functions)}
        self.kernels = {name: number[code.function] for name, code in self.blocks.items()}

    def __str__(self) -> str:
        """Return the program's name with its blocks and device."""
        blocks = counted(self.units, "block")
        return f"{self.program.name} as one kernel of {blocks} on {self.device.name}"

    def _is_aligned(self) -> bool:
        """Return True if every tensor begins where a thread may load several elements at once.

        This includes tensors that are another row in each trip of a loop.
        """
        operators = [self.operators[name] for name in self.blocks]
        begins = [self.address(v) for o in operators for v in (*o.args, *o.results)]
        for step in self.steps:
            if isinstance(step, LaunchCode):
                begins += [n for p in step.pointers for n in (p.step, p.begin, p.apart)]
        return all(n % LOADED_BYTES == 0 for n in begins)

    def _printed(self, aligned: bool) -> Iterator[tuple[str, BlockCode]]:
        """Yield the code of every operator that has tasks, by its name."""
        for s in self.plan.schedules.values():
            shares = (share for program in s.placement.programs for share in program)
            for position, kernel in dict.fromkeys((x.operator, x.kernel) for x in shares):
                operator = s.facts.operators[position]
                call, block = self.operators[operator.name].call, operator.kernel(kernel).block
                code = print_block(
                    call.kernel, self.device, self.program.env, self.plan.sizes, block, aligned
                )
                yield operator.name, code

    def _launch_inputs(self) -> LaunchInputs:
        plan, codes = self.plan, dict[str, BlockArguments]()
        for name, code in self.blocks.items():
            binding = self.operators[name].binding
            arguments = BlockArguments(tuple(map(_argument, code.tensors)))
            codes[binding] = codes[efficient_binding(binding)] = arguments
        return LaunchInputs(
            plan.program,
            plan.schedules,
            self.units,
            plan.sizes,
            codes,
            plan.placed.frames,
            plan.alone,
            plan.unit_assignments,
        )

    @property
    def units(self) -> int:
        """The blocks that must be resident together."""
        return self.plan.units.units

    @property
    def launches(self) -> tuple[LaunchCode, ...]:
        """The launches: one for all work between two library calls."""
        return tuple(step for step in self.steps if isinstance(step, LaunchCode))

    @cached_property
    def printed(self) -> ProgramSource:
        """Return the printed program."""
        each = {self.kernels[name]: code for name, code in self.blocks.items()}
        registers = max((code.registers for code in self.launches), default=1)
        blocks = [each[n] for n in sorted(each)]
        return print_program(blocks, NUMBERS, registers, self.units, self.device.lanes)

    @property
    def source(self) -> str:
        """The source in Numba CUDA, for all launches."""
        return self.printed.source

    @property
    def assembled(self) -> Assembled:
        """PTX with the assembler's predictions; raises BadOption or KernelCompileError."""
        return assemble_program(self.printed, self.device)

    @property
    def figures(self) -> str:
        """A sentence with the assembler's predictions and resident blocks, or why there is none."""
        reason = why_not(self.device)
        if reason:
            return reason
        assembled = self.assembled
        resident = assembled.occupancy.blocks * self.device.units
        return (
            f"predicted for {self.device.name}: {assembled.summary}, {resident} in all, of which "
            f"the plan has {self.units}"
        )

    @cached_property
    def regions(self) -> Mapping[str, MemoryRegion]:
        """Return the place of the arena, and of each root outside of it, in the one memory."""
        regions, end = dict[str, MemoryRegion](), 0
        values, plan = self.plan.program.values, self.plan
        sizes = [("", plan.placed.bytes)]
        for name, value in values.items():
            if value.root == name and value.home in ("input", "constant", "shape"):
                sizes.append((name, plan.extents.bytes(name)))
        sizes += [(name, plan.extents.bytes(name)) for name in plan.direct]
        for name, count in sizes:
            regions[name] = MemoryRegion(end, count)
            end += -(-max(1, count) // ALIGNED_BYTES) * ALIGNED_BYTES
        return regions

    @property
    def memory_bytes(self) -> int:
        """The bytes of the one memory."""
        last = list(self.regions.values())[-1]
        return -(-(last.begin + max(1, last.bytes)) // ALIGNED_BYTES) * ALIGNED_BYTES

    def address(self, name: str) -> int:
        """Return the address of a value's first element, in bytes from the beginning."""
        root = self.plan.program.values[name].root
        if root in self.regions:
            begin = self.regions[root].begin
        else:
            begin = self.plan.placed.offsets[root]
        return begin + self.plan.offset_bytes(name)

    def operands(self, name: str) -> list[int]:
        """Return the addresses of an operator's tensors, in the order of its code."""
        operator, code = self.operators[name], self.blocks[name]
        kernel = operator.call.kernel
        values = dict(zip(kernel.inputs, operator.args, strict=True))
        values |= zip(kernel.outputs, operator.results, strict=True)
        return [self.address(values[t.name]) + t.offset * ITEM_BYTES[t.dtype] for t in code.tensors]

    def accessed_bytes(self, name: str) -> AccessedBytes:
        """Return the parts of the one memory that an operator reads and writes."""
        operator = self.operators[name]

        def of(values: Iterable[str]) -> tuple[tuple[int, int], ...]:
            begins = ((v, self.address(v)) for v in dict.fromkeys(values))
            return tuple((begin, begin + self.plan.extents.bytes(v)) for v, begin in begins)

        return AccessedBytes(of(operator.args), of(operator.results))

    def split(self, launches: str) -> tuple[Step, ...]:
        """Return the steps with one launch for each part named by `launches`, one of `LAUNCHES`.

        Raises:
            BadOption: There is control flow, which needs one kernel.
        """
        if launches not in LAUNCHES:
            kinds = ", ".join(LAUNCHES)
            raise BadOption(f"a launch has one of {kinds}", where="launches", actual=launches)
        if launches == "program":
            return self.steps
        begins = sorted(self.plan.wall.bricks, key=lambda b: b.start_us)
        order = [*dict.fromkeys(b.call for b in begins)]
        steps: list[Step] = []
        for step in self.steps:
            if not isinstance(step, LaunchCode):
                steps.append(step)
                continue
            mine = {o.name for o in step.operators}
            steps += split_launch(
                step, launches, [n for n in order if n in mine], self.accessed_bytes
            )
        return tuple(steps)

    def tables(self, code: LaunchCode) -> Tables:
        """Return the tables that a launch reads beside the one memory."""
        return tables_of(code, self.kernels, self.operands, self.address, self.patience_ns)

    def fixed(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield data that no run changes with their addresses: constants, and values of shapes."""
        for name, value in self.plan.program.values.items():
            if value.root != name:
                continue
            if value.home == "constant":
                yield self.address(name), self.program.constants[name].array
            elif value.home == "shape":
                dims = [evaluate_dim(d, self.plan.sizes) for d in value.dims]
                yield self.address(name), np.array(dims, np.int64)

    def outputs(self) -> Iterator[tuple[str, int, tuple[int, ...], np.dtype]]:
        """Yield each output's name, address, shape and dtype at the end of a run."""
        program = self.plan.program
        for name, value in zip(program.output_names, program.outputs, strict=True):
            dtype = numpy_dtype(program.values[value].type.element)
            yield name, self.address(value), self.plan.shape(value), dtype


def _argument(t: Tensor) -> Argument:
    size = ITEM_BYTES[t.dtype]
    return Argument("tensor", t.name, t.local, item_bytes=size, offset=t.offset)


def _check_steps(steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, HostLoop | HostBranch):
            what = "loop" if isinstance(step, HostLoop) else "branch"
            raise BadOption(
                f"Python decides on the {what} {step.task.name}: no one kernel holds it",
                where=step.task.name,
                try_='grinder="lowest", which leaves it to the device where that can be',
            )
