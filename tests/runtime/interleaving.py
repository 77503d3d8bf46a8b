"""Launches whose units take turns as a test draws them: by a model, and by the real interpreter.

The model follows the rows of a launch block as `explorer.runtime.device_program.instructions` tells
of them, and shares no code with the interpreter. It knows what each row reads and writes, and with
vector clocks which rows are ordered by what the rows themselves wait for, whichever order was
drawn: so one drawn order finds a missing wait that another one would have needed luck for.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from dataclasses import dataclass, field

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.workers import Team
from tests.runtime.programs import ADDRESSES, CHUNK

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
KINDS = {address: kind for kind, address in ADDRESSES.items()}
MOST_ROWS = 200_000


def word(address):
    return ctypes.c_int64.from_address(address).value


def words(address, count):
    return list((ctypes.c_int64 * count).from_address(address))


def span(begin, count):
    """The words that some bytes lie in."""
    return range(begin // 8, (begin + count + 7) // 8)


def footprint(kind, first, last, args):
    """The words that tasks of a hand-made kernel read, and those that they write."""
    if kind == "test":
        a, out = words(args, 2)
        return [*span(a, 8)], [*span(out, 1)]
    if kind == "less":
        a, out = words(args, 2)
        return [*span(a, 8)], [*span(out, 8)]
    if kind == "row":
        index, a, out, n, m = words(args, 5)
        n = word(n) if n >= 1 << 20 else n
        row = min(max(word(index), 0), (word(m) if m >= 1 << 20 else m) - 1)
        tasks = range(first * CHUNK, min(n, last * CHUNK))
        reads = [a // 8 + n * row + i for i in tasks]
        return [index // 8, *reads], [out // 8 + i for i in tasks]
    *ins, out, n = words(args, 3 if kind == "flip" else 4)
    n = word(n) if n >= 1 << 20 else n
    tasks = range(first * CHUNK, min(n, last * CHUNK))
    reads = [ins[0] // 8 + n - 1 - i for i in tasks]
    reads += [ins[1] // 8 + i for i in tasks] if kind == "mix" else []
    return reads, [out // 8 + i for i in tasks]


class Fault(AssertionError):
    """A deadlock, a read before the write, or two rows whose order nothing says."""


@dataclass
class Unit:
    """Where a unit stands. `clock[v]` rows of unit v are over for sure before its next one."""

    clock: list
    row: int = 0
    epoch: int = 0
    arrived: int = 0  # at how many barriers
    over: bool = False
    registers: dict = field(default_factory=dict)
    stack: list = field(default_factory=list)
    shown: list = field(default_factory=list)  # (epoch, step), rising
    clocks: list = field(default_factory=list)  # the clock when it was shown


class Modelled:
    """Stands for a team: runs each launch row by row, `choose` saying which unit is next.

    `choose(units)` gets those that have not ended. What lies in `memory` must be written before it
    is read.
    """

    def __init__(self, choose, memory):
        begin = memory.ctypes.data
        self.choose, self.inside = choose, range(begin // 8, (begin + memory.nbytes + 7) // 8)
        self.written = set()
        self.rows = self.launches = 0

    def launch(self, block, count):
        self.launches += 1
        self.block = words(block, isa.LAUNCH_WORDS)
        self.fault = ctypes.c_int64.from_address(block + 8 * isa.L_FAULT)
        self.fault.value = 0
        assert self.block[isa.L_UNITS] == count
        self.move()
        self.programs = words(self.block[isa.L_PROGRAMS], count)
        self.codes = words(self.block[isa.L_CODE], count)
        self.units = [Unit([0] * count) for _ in range(count)]
        self.writers, self.readers = {}, {}
        stuck = set()
        while left := [u for u in range(count) if not self.units[u].over]:
            able = [u for u in left if u not in stuck]
            if not able:
                raise Fault(f"deadlock: units {left} wait for each other")
            number = self.choose(able)
            if self.step(number):
                stuck.clear()
                self.rows += 1
            else:
                stuck.add(number)
            if self.rows > MOST_ROWS:
                raise Fault("the rows do not end")

    def move(self):
        bases = self.block[isa.L_BASES]
        for n in range(self.block[isa.L_MOVED]):
            where, base, offset = words(self.block[isa.L_MOVES] + 8 * isa.MOVE_WORDS * n, 3)
            ctypes.c_int64.from_address(where).value = word(bases + 8 * base) + offset

    def slot(self, unit, number):
        return word(word(self.block[isa.L_SLOTS] + 8 * unit) + 8 * number)

    def point(self, unit, first, last, count):
        size = isa.POINTER_WORDS
        rows = word(self.block[isa.L_POINTERS] + 8 * unit)
        for n in range(first, last):
            where, source, step, begin = words(rows + 8 * size * n, size)
            ctypes.c_int64.from_address(where).value = word(source) + count * step + begin

    def step(self, number):
        """Do a unit's next row; whether it could."""
        unit = self.units[number]
        op, *given = words(self.programs[number] + isa.ROW_BYTES * unit.row, isa.ROW_WORDS)
        if op == isa.WAIT and not self.has_shown(unit, given[0], (unit.epoch, given[1])):
            return False
        if op == isa.BARRIER and not self.all_here(number, unit):
            return False
        unit.row += 1
        unit.clock[number] += 1
        self.do(op, number, unit, *given)
        return True

    def has_shown(self, unit, other, wanted):
        """Whether it has; if so, all is known that the first such step says."""
        at = bisect_left(self.units[other].shown, wanted)
        if at == len(self.units[other].shown):
            return False
        unit.clock[:] = map(max, unit.clock, self.units[other].clocks[at])
        return True

    def show(self, unit, epoch, step):
        unit.shown.append((epoch, step))
        unit.clocks.append(list(unit.clock))

    def all_here(self, number, unit):
        if unit.arrived == unit.epoch:
            unit.arrived += 1
            self.show(unit, unit.epoch + 1, 0)
        others = [u for u in range(len(self.units)) if u != number]
        if any(self.units[u].arrived <= unit.epoch for u in others):
            return False
        for other in others:
            self.has_shown(unit, other, (unit.epoch + 1, 0))
        unit.epoch += 1
        return True

    def do(self, op, number, unit, a, b, c, d):
        match op:
            case isa.RUN:
                self.run(number, unit, a, b, c)
                if d:
                    self.show(unit, unit.epoch, d)
            case isa.LOOK:
                unit.registers[a] = self.read_scalar(number, self.slot(number, b), c)
            case isa.BRANCH if unit.registers[a] == 0:
                unit.row = b
            case isa.LOOP if self.is_over(number, unit.registers[a] + d, b):
                unit.row = c
            case isa.LET:
                unit.registers[a] = b
            case isa.NEXT:
                unit.registers[a] += 1 + b
            case isa.STORE if number == 0 or d:
                self.write_scalar(number, self.slot(number, a), 8, unit.registers[b] + c)
            case isa.FILL if number == 0 or d:
                self.write_scalar(number, self.slot(number, a), b, c)
            case isa.COPY:
                self.copy(number, self.slot(number, a), self.slot(number, b), c, d)
            case isa.JUMP:
                unit.row = a
            case isa.POINT:
                self.point(number, a, b, unit.registers[c])
            case isa.CALL:
                unit.registers[a] += 1
                kept = {n: r for n, r in unit.registers.items() if a < n < a + d}
                unit.stack.append((unit.row, unit.registers[a], kept))
                unit.row = b
            case isa.RETURN:
                assert self.fault.value or unit.stack[-1][1] == unit.registers[a]
                while unit.stack[-1][1] > unit.registers[a]:
                    unit.stack.pop()  # calls that a fault has ended
                unit.row, depth, kept = unit.stack.pop()
                unit.registers |= {**kept, a: depth - 1}
            case isa.DEEPEST if unit.registers[a] >= b:
                self.fault.value = c
                unit.row = d
            case isa.QUIT if self.fault.value:
                unit.over = True
            case isa.END:
                assert not unit.stack
                unit.over = True

    def is_over(self, number, count, slot):
        return count >= self.read_scalar(number, self.slot(number, slot), 8)

    def run(self, number, unit, call, first, last):
        code = self.codes[number] + 8 * isa.CODE_WORDS * call
        address, args = words(code, isa.CODE_WORDS)
        reads, writes = footprint(KINDS[address], first, last, args)
        self.touch(number, reads, writes)
        KERNEL(address)(first, last, args)

    def copy(self, number, target, source, count, whole):
        units, lines = len(self.units), -(-count // 64)
        first = 0 if whole else lines * number // units * 64
        last = count if whole else min(lines * (number + 1) // units * 64, count)
        size = last - first
        if size > 0:
            self.touch(number, span(source + first, size), span(target + first, size))
            ctypes.memmove(target + first, source + first, size)

    def read_scalar(self, number, address, size):
        self.touch(number, span(address, size), ())
        return ctypes.c_uint8.from_address(address).value if size == 1 else word(address)

    def write_scalar(self, number, address, size, value):
        self.touch(number, (), span(address, size))
        kind = ctypes.c_uint8 if size == 1 else ctypes.c_int64
        kind.from_address(address).value = value

    def touch(self, number, reads, writes):
        """Every earlier writer of what is read, and user of what is written, is over for sure."""
        clock = self.units[number].clock
        for at in reads:
            if at in self.inside and at not in self.written:
                raise Fault(f"unit {number} reads word {at}, which nothing has written")
            by, when = self.writers.get(at, (number, 0))
            if clock[by] < when:
                raise Fault(f"unit {number} reads word {at} while unit {by} may write it")
            self.readers.setdefault(at, {})[number] = clock[number]
        for at in writes:
            users = [*self.readers.pop(at, {}).items(), self.writers.get(at, (number, 0))]
            for by, when in users:
                if clock[by] < when:
                    raise Fault(f"unit {number} writes word {at} while unit {by} may use it")
            self.writers[at] = (number, clock[number])
            self.written.add(at)


class Stepped(Team):
    """A team without threads: the real interpreter does one row of the unit that is drawn."""

    def __init__(self, choose):
        super().__init__(workers=1)
        self.choose = choose
        self.rows = 0

    def launch(self, block, count):
        self._call(isa.ASK_BEGIN, self._address, block)
        left, stuck = set(range(count)), set()
        while left:
            able = sorted(left - stuck)
            if not able:
                raise Fault(f"deadlock: units {sorted(left)} wait for each other")
            unit = self.choose(able)
            state = self._call(isa.ASK_ROW, self._address, unit)
            if state == 0:
                stuck.add(unit)
                continue
            self.rows += 1
            stuck.clear()
            if state == 2:
                left.remove(unit)
