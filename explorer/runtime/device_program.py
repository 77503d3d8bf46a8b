"""The interpreter of device programs: a schedule is data, so a new one needs no compilation.

Rammer (OSDI'20, section 4.3) makes its barriers of one step counter per unit; so do we. A step that
is seen is `epoch * stride + step`: every barrier begins an epoch, so a loop may publish the same
steps again.
"""

from __future__ import annotations

from numba import njit

from explorer.runtime import instructions as isa
from explorer.runtime.intrinsics import (
    add,
    call_futex,
    call_kernel,
    call_move,
    call_sleep,
    call_yield,
    cycles,
    exchange,
    load,
    load_acquire,
    load_byte,
    pause,
    store,
    store_byte,
)

FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE, EVERYONE = 128, 129, 1 << 30
SLEEP_US = 200  # where there is no futex
CHECKS = 32  # looks at a word between two looks at the clock
WORD = "int64"


def native(result, words):  # type: ignore[no-untyped-def]
    """Compile for words only: else each number that stands in a call makes another copy."""
    return njit(f"{result}({', '.join([WORD] * words)})", error_model="numpy", nogil=True)


@native(WORD, 2)
def mailbox(team, unit):  # type: ignore[no-untyped-def]
    return team + isa.LINE_BYTES * (1 + isa.UNIT_LINES * unit)


@native(WORD, 2)
def steps(team, unit):  # type: ignore[no-untyped-def]
    return team + isa.LINE_BYTES * (2 + isa.UNIT_LINES * unit)


@native("void", 3)
def sleep_on(team, word, seen):  # type: ignore[no-untyped-def]
    """Give up the core until the word's low half is no longer `seen`, or somebody wakes us."""
    number = load(team + 8 * isa.T_FUTEX)
    if number == 0:
        call_sleep(load(team + 8 * isa.T_SLEEP), SLEEP_US)
    else:
        call_futex(
            load(team + 8 * isa.T_SYSCALL), number, word, FUTEX_WAIT_PRIVATE, seen & 0xFFFFFFFF, 0
        )


@native("void", 2)
def wake(team, word):  # type: ignore[no-untyped-def]
    """Wake whoever sleeps on a word."""
    number = load(team + 8 * isa.T_FUTEX)
    if number != 0:
        call_futex(load(team + 8 * isa.T_SYSCALL), number, word, FUTEX_WAKE_PRIVATE, EVERYONE, 0)


@native("void", 4)
def reaches(team, word, parked, least):  # type: ignore[no-untyped-def]
    """Return when the word is at least `least`: spin, then let others run, then sleep."""
    if load_acquire(word) >= least:
        return
    begin = cycles()
    spin = load(team + 8 * isa.T_SPIN)
    patience = load(team + 8 * isa.T_PATIENCE)
    gone = 0
    while gone < patience:
        for _ in range(CHECKS):
            if load_acquire(word) >= least:
                return
            pause()
        gone = cycles() - begin
        if gone >= spin:
            call_yield(load(team + 8 * isa.T_YIELD))
    add(parked, 1)
    seen = load_acquire(word)
    while seen < least:
        sleep_on(team, word, seen)
        seen = load_acquire(word)
    add(parked, -1)


@native("void", 3)
def publish(team, unit, value):  # type: ignore[no-untyped-def]
    """Let the other units see a step, and all that was written before it."""
    line = steps(team, unit)
    exchange(line + 8 * isa.S_STEP, value)
    if load_acquire(line + 8 * isa.S_PARKED) > 0:
        wake(team, line + 8 * isa.S_STEP)


@native("void", 3)
def reached(team, unit, value):  # type: ignore[no-untyped-def]
    """Return when a unit has let this step be seen."""
    line = steps(team, unit)
    reaches(team, line + 8 * isa.S_STEP, line + 8 * isa.S_PARKED, value)


@native("void", 4)
def meet(team, unit, units, value):  # type: ignore[no-untyped-def]
    """Return when every unit is here; `value` begins the next epoch."""
    publish(team, unit, value)
    for other in range(units):
        if other != unit:
            reached(team, other, value)


@native("void", 6)
def copy_part(team, target, source, count, unit, units):  # type: ignore[no-untyped-def]
    """Copy this unit's part, cut at 64 bytes."""
    lines = (count + 63) // 64
    first = lines * unit // units * 64
    last = min(lines * (unit + 1) // units * 64, count)
    if last > first:
        call_move(load(team + 8 * isa.T_MOVE), target + first, source + first, last - first)


@native("void", 3)
def interpret(team, block, unit):  # type: ignore[no-untyped-def]
    """Follow one unit's rows to the isa.END."""
    units = load(block + 8 * isa.L_UNITS)
    stride = load(block + 8 * isa.L_STRIDE)
    rows = load(load(block + 8 * isa.L_PROGRAMS) + 8 * unit)
    code = load(load(block + 8 * isa.L_CODE) + 8 * unit)
    slots = load(block + 8 * isa.L_SLOTS)
    registers = load(block + 8 * isa.L_REGISTERS) + 8 * isa.REGISTERS * unit
    stamps = load(load(block + 8 * isa.L_STAMPS) + 8 * unit)
    room = load(block + 8 * isa.L_CAPACITY) if stamps != 0 else 0
    stamped = 0
    epoch = 0
    row = 0
    while True:
        at = rows + isa.ROW_BYTES * row
        op = load(at)
        a = load(at + 8)
        b = load(at + 16)
        c = load(at + 24)
        row += 1
        if op == isa.RUN:
            call = code + 8 * isa.CODE_WORDS * a
            if stamps == 0:
                call_kernel(load(call), b, c, load(call + 8))
            else:
                begin = cycles()
                call_kernel(load(call), b, c, load(call + 8))
                end = cycles()
                if stamped < room:
                    stamp = stamps + 8 * isa.STAMP_WORDS * stamped
                    store(stamp, row - 1)
                    store(stamp + 8, begin)
                    store(stamp + 16, end)
                stamped += 1
            seen = load(at + 32)
            if seen > 0:
                publish(team, unit, epoch * stride + seen)
        elif op == isa.WAIT:
            reached(team, a, epoch * stride + b)
        elif op == isa.BARRIER:
            epoch += 1
            meet(team, unit, units, epoch * stride)
        elif op == isa.BRANCH:
            meet(team, unit, units, (epoch + 1) * stride)
            where = load(slots + 8 * a)
            scalar = load_byte(where) if b == 1 else load(where)
            epoch += 2
            meet(team, unit, units, epoch * stride)
            if scalar == 0:
                row = c
        elif op == isa.LOOP:
            if load(registers + 8 * a) >= load(load(slots + 8 * b)):
                row = c
        elif op == isa.LET:
            store(registers + 8 * a, b)
        elif op == isa.NEXT:
            store(registers + 8 * a, load(registers + 8 * a) + 1)
        elif op == isa.STORE:
            if unit == 0:
                store(load(slots + 8 * a), load(registers + 8 * b))
        elif op == isa.COPY:
            copy_part(team, load(slots + 8 * a), load(slots + 8 * b), c, unit, units)
        elif op == isa.FILL:
            if unit == 0 and b == 1:
                store_byte(load(slots + 8 * a), c)
            elif unit == 0:
                store(load(slots + 8 * a), c)
        elif op == isa.JUMP:
            row = a
        elif op == isa.END:
            break
    store(load(block + 8 * isa.L_COUNTS) + 8 * unit, stamped)
    publish(team, unit, isa.DONE)


@native("void", 2)
def call_up(team, units):  # type: ignore[no-untyped-def]
    """Tell the workers below `units` that it is their turn."""
    turn = load(team + 8 * isa.T_TURN) + 1
    store(team + 8 * isa.T_TURN, turn)
    for unit in range(1, units):
        box = mailbox(team, unit)
        exchange(box + 8 * isa.M_TURN, turn)
        if load_acquire(box + 8 * isa.M_PARKED) > 0:
            wake(team, box + 8 * isa.M_TURN)


@native("void", 1)
def move(block):  # type: ignore[no-untyped-def]
    """Let a launch's tables point to where this run's inputs and outputs lie."""
    at = load(block + 8 * isa.L_MOVES)
    bases = load(block + 8 * isa.L_BASES)
    for _ in range(load(block + 8 * isa.L_MOVED)):
        store(load(at), load(bases + 8 * load(at + 8)) + load(at + 16))
        at += 8 * isa.MOVE_WORDS


@native("void", 2)
def launch(team, block):  # type: ignore[no-untyped-def]
    """Run a launch with the calling thread as unit 0; returns when every unit has ended."""
    units = load(block + 8 * isa.L_UNITS)
    store(block + 8 * isa.L_BEGIN, cycles())
    move(block)
    store(team + 8 * isa.T_LAUNCH, block)
    for unit in range(units):
        store(steps(team, unit) + 8 * isa.S_STEP, 0)
    call_up(team, units)
    interpret(team, block, 0)
    for unit in range(1, units):
        reached(team, unit, isa.DONE)
    store(block + 8 * isa.L_END, cycles())


@native("void", 2)
def serve(team, unit):  # type: ignore[no-untyped-def]
    """A worker's life: take part in one launch after the other until the team stops."""
    box = mailbox(team, unit)
    turn = load(box + 8 * isa.M_SEEN)
    while True:
        reaches(team, box + 8 * isa.M_TURN, box + 8 * isa.M_PARKED, turn + 1)
        turn = load_acquire(box + 8 * isa.M_TURN)
        if load_acquire(team + 8 * isa.T_STOP) != 0:
            return
        interpret(team, load(team + 8 * isa.T_LAUNCH), unit)


@native(WORD, 3)
def entry(ask, team, what):  # type: ignore[no-untyped-def]
    """The one function that Python calls: read the clock, run a launch, or serve as a unit."""
    if ask == isa.ASK_CYCLES:
        return cycles()
    if ask == isa.ASK_LAUNCH:
        launch(team, what)
    elif ask == isa.ASK_SERVE:
        serve(team, what)
    elif ask == isa.ASK_STOP:
        call_up(team, what)
    return 0
