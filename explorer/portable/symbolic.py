"""A portable program whose sizes are parameters: every number that depends on them is a formula.

One unit runs the operators in program order, so only the number of each call's tasks depends on
sizes. Memory is that of Relax's storages, whose offsets are sums of formulas:

storage 3 begins where storage 2 ends:  end_3 = end_2 + 64 * ceil(4 * batch * 1024 / 64)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from explorer.codegen.build import Argument
from explorer.errors import BadOption
from explorer.grinder import OperatorTask
from explorer.grinder.model import key_of, straights
from explorer.ir.decisions.wall import RProgram, Run
from explorer.ir.dims import (
    Dim,
    ceil_div,
    evaluate_dim,
    product,
    simplify,
    symbol,
    symbols_of,
    sympy,
    text_of_dim,
)
from explorer.ir.types import ITEM_BYTES, numpy_dtype
from explorer.memory.allocations import allocations, steps
from explorer.memory.planner import StackFrames
from explorer.memory.storages import plan_storages
from explorer.portable.portable_program import (
    Formula,
    PortableProgram,
    PortableTensor,
    Symbols,
    dim_of,
)
from explorer.portable.program import ProgramBuilder, WeightBlock, executable_for
from explorer.rammer import Schedule
from explorer.runtime.binding.assemble import assemble
from explorer.runtime.binding.launch_code import LaunchCode, LaunchInputs
from explorer.runtime.binding.tables import ABSOLUTE, ARENA, SCRATCH, Address, ArgumentBlocks
from explorer.runtime.executable import Executable
from explorer.runtime.planning.plan import Plan
from explorer.runtime.workers.aligned_memory import ALIGNMENT
from explorer.runtime.workers.launch import Row

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

ENDS = "@"  # begins the names of storages' ends, which no symbol of a model does


def symbolic(c: Compilation) -> PortableProgram:
    """Return a compilation as a program of one unit whose sizes are parameters.

    Raises:
        BadOption: Its kernels are no code of a CPU, the program needs Python while it runs, or
            sizes other than the inputs' are computed from them.
    """
    executable = executable_for(c, 1)
    if executable.shape_computation is not None:
        raise BadOption(
            f"{c.model.name} computes values from its sizes before a run, which only Python does",
            where=c.model.name,
            expected="a program whose sizes are those of its inputs",
            try_="a size for each symbol",
        )
    return SymbolicBuilder(c, executable.plan(c.hint), executable).program()


@dataclass(frozen=True)
class OneUnit:
    """A schedule that runs all tasks of each operator in program order."""

    programs: tuple[RProgram, ...]


class Numbers:
    """Numbers with formulas; `values` are those of all symbols at the planned sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """Create numbers at these sizes."""
        self.values = dict(sizes)
        self.ends: list[tuple[str, Dim]] = []

    def of(self, dim: Dim) -> int:
        """Return a dim as a number that keeps its formula."""
        if isinstance(dim, int):
            return dim
        if dim.is_Integer:
            return int(dim)
        return Formula(evaluate_dim(dim, self.values), dim)

    def define(self, name: str, dim: Dim) -> None:
        """Give a formula a name, which later ones use."""
        self.ends.append((name, dim))
        self.values[name] = evaluate_dim(dim, self.values)

    def end(self, begin: Dim, count: Dim) -> Dim:
        """Return the end of some bytes, a complete cache line: a number, or a name for one."""
        end = simplify(begin + ALIGNMENT * ceil_div(count, ALIGNMENT))
        if isinstance(end, int):
            return end
        name = f"{ENDS}{len(self.ends)}"
        self.define(name, end)
        return symbol(name)


class SymbolicPlaces(WeightBlock):
    """Places of values whose offsets are formulas.

    Values whose elements are dims come first in the arena, then storages, then stacks.
    """

    def __init__(self, plan: Plan, executable: Executable, numbers: Numbers) -> None:
        """Place all values."""
        super().__init__(plan, executable.constants)
        self.numbers, self.words = numbers, list[tuple[int, Dim]]()
        self.offsets_of_shapes: dict[str, int] = {}
        self.frames: dict[str, StackFrames] = {}
        self.arena = offsets = dict[str, int]()
        end = self._shapes()
        planner = executable.planner
        memory = replace(
            executable.memory_options, policy="storages", bounds=False, ordered=False, outputs=False
        )
        candidates = allocations(plan.program, planner.uses, planner.direct)
        positions = steps(plan.program, planner.uses, {a.name for a in candidates}, memory.in_place)
        storages = plan_storages(candidates, positions, executable.program.env, memory)
        for storage in storages.storages:
            offsets |= {token.name: numbers.of(end) for token in storage.tokens}
            end = numbers.end(end, storage.bytes)
        for stack in planner.memory.stacks:
            depth = plan.placed.frames[stack.recursion].depth
            begin: Dim = 0
            for buffer in stack.buffers.all:
                offsets[buffer.name] = numbers.of(simplify(end + begin))
                begin = numbers.end(begin, plan.program.values[buffer.name].type.bytes)
            self.frames[stack.recursion] = StackFrames(depth, numbers.of(begin))
            offsets[stack.buffer.name] = numbers.of(end)
            end = numbers.end(end, product((depth, begin)))
        self.end = numbers.of(end)

    def _shapes(self) -> Dim:
        """Place the values whose elements are dims; return their end."""
        end = 0
        for name, value in self.plan.program.values.items():
            if value.home != "shape" or value.root != name or not any(map(symbols_of, value.dims)):
                continue
            self.offsets_of_shapes[name] = end
            self.words += [(end + 8 * n, dim) for n, dim in enumerate(value.dims)]
            end += -(-8 * len(value.dims) // ALIGNMENT) * ALIGNMENT
        return end

    def of(self, name: str) -> Address:
        """Return the place of a value's first element."""
        value = self.plan.program.values[name]
        at = self.root(value.root)
        item = ITEM_BYTES[value.type.element]
        return Address(at.base, self.numbers.of(product((value.offset, item))) + at.offset)

    def root(self, name: str) -> Address:
        """Return the place of a root."""
        if name in self.offsets_of_shapes:
            return Address(ARENA, self.offsets_of_shapes[name])
        return super().root(name)


class SymbolicBlocks(ArgumentBlocks):
    """Argument blocks of formulas."""

    places: SymbolicPlaces

    def __init__(self, places: SymbolicPlaces, codes: Mapping[str, object]) -> None:
        """Create an empty table."""
        super().__init__(places, codes)  # type: ignore[arg-type]
        self.scratch_dims: dict[Dim, None] = {0: None}

    def block(self, operator: OperatorTask) -> None:
        """Append one kernel call's arguments."""
        kernel = operator.call.kernel
        values = dict(zip(kernel.inputs, operator.args, strict=True))
        values |= zip(kernel.outputs, operator.results, strict=True)
        scratch: Dim = 0
        for argument in self.codes[operator.binding].arguments:
            if argument.kind == "scratch":
                self.rows.append(Address(SCRATCH, self.places.numbers.of(scratch)))
                count = product((argument.elements, argument.item_bytes))
                scratch = simplify(scratch + ALIGNMENT * (ceil_div(count, ALIGNMENT) + 1))
            else:
                self.rows.append(self.argument(argument, values))
        self.scratch_dims.setdefault(scratch)

    def argument(self, argument: Argument, values: Mapping[str, str]) -> Address:
        """Return the place of an argument of any kind but scratch."""
        of = self.places.numbers.of
        match argument.kind:
            case "tensor":
                place = self.places.of(values[argument.name])
                begin = of(product((argument.offset, argument.item_bytes)))
                return Address(place.base, begin + place.offset)
            case "dim":
                return Address(ABSOLUTE, of(argument.elements))
        return super().argument(argument, values)

    @property
    def most_scratch(self) -> Dim:
        """The scratch bytes of the call that needs most."""
        numbers = [d for d in self.scratch_dims if isinstance(d, int)]
        others = [d for d in self.scratch_dims if not isinstance(d, int)]
        return sympy.Max(max(numbers), *others, evaluate=False) if others else max(numbers)


@dataclass(frozen=True)
class SymbolicInputs(LaunchInputs):
    """The uTasks of a launch whose numbers are formulas."""

    numbers: Numbers

    def number(self, dim: Dim) -> int:
        """Return a dim as a number that keeps its formula."""
        return self.numbers.of(dim)

    def table(self, rows: list[Row]) -> np.ndarray:  # type: ignore[override]
        """Return a unit's rows with their formulas."""
        return np.array(rows, object).reshape(len(rows), -1)


class SymbolicBuilder(ProgramBuilder):
    """The portable program of all sizes; the plan is that of the planned sizes."""

    def __init__(self, c: Compilation, plan: Plan, executable: Executable) -> None:
        """Create the builder."""
        super().__init__(c, plan, executable)
        self.numbers = Numbers(c.hint)
        self._rename()
        self.places = SymbolicPlaces(plan, executable, self.numbers)
        self.blocks = SymbolicBlocks(self.places, self.codes)

    def _rename(self) -> None:
        """Define the symbols of recursive functions, which follow from the inputs'."""
        renamings = self.plan.program.symbol_renaming.values()
        todo = {s: d for renaming in renamings for s, d in renaming.items() if str(d) != s}
        while ready := [s for s, d in todo.items() if symbols_of(d) <= self.numbers.values.keys()]:
            for name in ready:
                self.numbers.define(name, todo.pop(name))

    def program(self) -> PortableProgram:
        """Return the program."""
        fixed = super().program()
        assert isinstance(self.places, SymbolicPlaces) and isinstance(self.blocks, SymbolicBlocks)
        unknown = self._symbols(fixed) - self.numbers.values.keys()
        if unknown:
            raise BadOption(
                f"{self.c.model.name} has sizes that its inputs do not determine: "
                f"{', '.join(sorted(unknown))}",
                where=self.c.model.name,
                try_="a size for each symbol",
            )
        env = self.executable.program.env
        bounds = tuple(map(env.of, self.c.hint))
        equal = tuple(
            (
                f"dim {r.axis} of {r.name!r} must be {text_of_dim(r.expected)} and is "
                f"{text_of_dim(r.actual)}",
                self._of_inputs(r.expected),
                self._of_inputs(r.actual),
            )
            for of_function in self.executable.relations.values()
            for r in of_function
        )
        symbols = Symbols(bounds, tuple(self.numbers.ends), equal, tuple(self.places.words))
        return replace(
            fixed,
            arena_bytes=self.places.end,
            scratch_bytes=self.numbers.of(self.blocks.most_scratch),
            symbols=symbols,
        )

    def _of_inputs(self, dim: Dim) -> Dim:
        """Return a dim in terms of the inputs' symbols alone."""
        ends = dict(self.numbers.ends)
        while not isinstance(dim, int) and (names := symbols_of(dim) & ends.keys()):
            dim = simplify(dim.xreplace({symbol(n): sympy.sympify(ends[n]) for n in names}))
        return dim

    def _symbols(self, program: PortableProgram) -> frozenset[str]:
        """Return the symbols that the argument blocks and shapes depend on."""
        numbers = [place[2] for place in program.arguments]
        numbers += [n for t in (*program.inputs, *program.outputs) for n in t.shape]
        return frozenset[str]().union(*(symbols_of(dim_of(n)) for n in numbers))

    def bytes_of(self, name: str) -> int:
        """Return the bytes of a value's elements."""
        return self.numbers.of(self.plan.program.values[name].type.bytes)

    def tensor(self, name: str, value: str) -> PortableTensor:
        """Return an input or output."""
        kind = self.plan.program.values[value].type
        shape = tuple(map(self.numbers.of, kind.dims))
        return PortableTensor(name, str(numpy_dtype(kind.element)), shape)

    def launch_codes(self) -> list[LaunchCode]:
        """Return the launches, whose rows have formulas."""
        assert isinstance(self.places, SymbolicPlaces)
        tasks = self.plan.program
        schedules = {
            key_of(part): OneUnit((self._all_tasks(part.operators),))
            for part in straights(tasks.parts)
        }
        inputs = SymbolicInputs(
            tasks,
            cast(Mapping[str, Schedule], schedules),
            1,
            self.numbers.values,
            self.codes,
            self.places.frames,
            (),
            {},
            self.numbers,
        )
        return [self.device_step(step) for step in assemble(inputs)]

    def _all_tasks(self, operators: tuple[OperatorTask, ...]) -> RProgram:
        """Return the instructions of a straight run: all tasks of each operator."""
        runs = tuple(Run(n, 0, self._tasks(operator)) for n, operator in enumerate(operators))
        return RProgram((runs,), tuple(operator.name for operator in operators))

    def _tasks(self, operator: OperatorTask) -> int:
        """Return the number of a call's tasks: none if it writes no elements."""
        grid = self.codes[operator.binding].tile_program.grid
        count = product(ceil_div(g.extent, g.tile) for g in grid)
        elements = product(self.plan.program.values[operator.results[0]].type.dims)
        if elements == 0:
            return 0
        if not isinstance(elements, int) and self.executable.program.env.bounds(elements)[0] <= 0:
            count = sympy.Mul(count, sympy.Min(1, elements, evaluate=False), evaluate=False)
        return self.numbers.of(count)
