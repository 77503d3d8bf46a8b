"""What waits for ever is told before it runs, and only that: the persistent kernel agrees."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from explorer.codegen.cuda.persistent import ProgramSource, print_program
from explorer.errors import CheckFailed
from explorer.ir.decisions.wall import Instruction, RProgram, Run, Wait
from explorer.runtime.binding.launch_code import LaunchCode
from explorer.runtime.cuda.deadlock import find_deadlock, refuse_residency
from explorer.runtime.cuda.driver import SimulatedDriver
from explorer.runtime.cuda.program import NUMBERS
from explorer.runtime.cuda.tables import Tables, tables_of
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import Row, rows_of

PROGRAMS = 1000
RUN = Run(0, 0, 0)


def rows_of_unit(instructions: tuple[Instruction, ...]) -> np.ndarray:
    """Runs of no task, each of which shows its step."""
    rows, step = list[Row](), 0
    for given in instructions:
        if isinstance(given, Wait):
            rows.append((isa.WAIT, given.unit, given.step, 0, 0))
        else:
            step += 1
            rows.append((isa.RUN, 0, 0, 0, step))
    return rows_of([*rows, (isa.END, 0, 0, 0, 0)])


@cache
def printed() -> ProgramSource:
    """The kernel of programs without thread blocks, of one thread a unit."""
    return print_program([], NUMBERS, 1, 1, 1)


def run(program: RProgram, seed: int) -> Tables:
    """The tables behind a run; CheckFailed where it hangs."""
    units = range(len(program.units))
    rows = tuple(rows_of_unit(u) for u in program.units)
    nothing = tuple(dict[int, object]() for _ in units)
    code = LaunchCode(tuple(units), rows, (), (), (), nothing, 1, 0, (), ())  # type: ignore[arg-type]
    tables = tables_of(code, {}, lambda name: (), lambda name: 0, stamps=16)
    device = SimulatedDriver(len(units), seed)
    device.make_room(8)
    device.load(printed(), len(units), tables.arrays).run()
    return tables


def random_program(seed: int) -> RProgram:
    """Every other one is written in an order in which all that is waited for has been; of the
    others some wait in a circle, or for steps that never come.
    """
    draw = np.random.default_rng(seed)
    units = [list[Instruction]() for _ in range(draw.integers(1, 6))]
    ended = [0] * len(units)
    for _ in range(draw.integers(1, 14)):
        unit, other = (int(n) for n in draw.integers(len(units), size=2))
        if draw.random() < 0.5:
            most = ended[other] if seed % 2 else ended[other] + 2
            if most:
                units[unit].append(Wait(other, int(draw.integers(1, most + 1))))
        units[unit].append(RUN)
        ended[unit] += 1
    return RProgram(tuple(map(tuple, units)), ("call",))


def waits_held(program: RProgram, tables: Tables) -> bool:
    """Whether no Run began before all that its unit waited for had ended."""
    stamps = [tables.stamps(unit) for unit in range(len(program.units))]
    for unit, rows in enumerate(program.units):
        place = 0
        for row in rows:
            if isinstance(row, Run):
                place += 1
            elif place < len(stamps[unit]) and (
                stamps[unit][place, 1] < stamps[row.unit][row.step - 1, 2]
            ):
                return False
    return [len(s) for s in stamps] == [sum(isinstance(r, Run) for r in u) for u in program.units]


def test_a_thousand_random_programs_hang_where_the_checker_says_so_and_nowhere_else() -> None:
    told = 0
    for seed in range(PROGRAMS):
        program = random_program(seed)
        if why := find_deadlock([program]):
            told += 1
            assert seed % 2 == 0, why
            with pytest.raises(CheckFailed, match="a deadlock"):
                run(program, seed)
        else:
            assert waits_held(program, run(program, seed)), seed
    assert 100 < told < 500


def test_what_never_comes_is_told() -> None:
    circle = RProgram(((Wait(1, 1), RUN), (Wait(0, 1), RUN)), ("call",))
    assert (
        find_deadlock([circle]) == "unit 0 waits for step 1 of unit 1, which waits for it in turn"
    )
    short = RProgram(((Wait(1, 2),), (RUN,)), ("call",))
    assert find_deadlock([RProgram(((RUN,),), ("call",)), short]) == (
        "launch 1: unit 0 waits for step 2 of unit 1, which has 1"
    )
    outside = RProgram(((Wait(3, 1),),), ("call",))
    assert find_deadlock([outside]) == "unit 0 waits for step 1 of unit 3, and there are 1 units"


def test_more_blocks_than_can_be_resident_are_told() -> None:
    assert refuse_residency(4, 4, "it") == ""
    assert "5 blocks wait for each other and it holds 4" in refuse_residency(5, 4, "it")
