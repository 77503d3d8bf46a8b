"""Interpreter of device programs: a schedule is data, so a new one needs no compilation.

As in Rammer (OSDI'20, section 4.3), barriers use one step counter per unit. The published value is
`epoch * stride + step`: every barrier begins an epoch, so a loop may publish the same steps again.
"""

from __future__ import annotations

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.device_program.intrinsics import (
    call_kernel,
    call_move,
    cycles,
    load,
    load_acquire,
    load_byte,
    ordered_cycles,
    store,
    store_byte,
)
from explorer.runtime.device_program.llvm_words import inlined, words
from explorer.runtime.device_program.waiting import is_free, mailbox, publish, steps, wait_for_step

ROWS_BETWEEN_LOOKS = 64  # reads of the clock; chosen, not measured


@inlined
def copy_part(team, target, source, count, unit, units):  # type: ignore[no-untyped-def]
    """Copy this unit's part, cut at 64 bytes."""
    lines = (count + 63) // 64
    first = lines * unit // units * 64
    last = min(lines * (unit + 1) // units * 64, count)
    if last > first:
        call_move(load(team + 8 * isa.T_MOVE), target + first, source + first, last - first)


@inlined
def find_missing(team, turn, unit, units, value):  # type: ignore[no-untyped-def]
    """Return a unit that has not arrived yet, or -1."""
    for other in range(units):
        if other != unit and wait_for_step(team, turn, other, value) == 0:
            return other
    return -1


@inlined
def point(at, last, count):  # type: ignore[no-untyped-def]
    """Set pointers by the trip count of a loop; those that depend on others come later."""
    while at < last:
        store(load(at), load(load(at + 8)) + count * load(at + 16) + load(at + 24))
        at += 8 * isa.POINTER_WORDS


@inlined
def save_registers(registers, register, at, count):  # type: ignore[no-untyped-def]
    """Save the registers after one in a stack's words after the first."""
    for n in range(1, count):
        store(at + 8 * n, load(registers + 8 * (register + n)))


@inlined
def restore_registers(registers, register, at, count):  # type: ignore[no-untyped-def]
    """Restore the registers after one."""
    for n in range(1, count):
        store(registers + 8 * (register + n), load(at + 8 * n))


@inlined
def note(block, unit, notes, row, value):  # type: ignore[no-untyped-def]
    """Record a unit's decision in a row, with its time; beyond the room it is only counted."""
    count = load(block + 8 * isa.L_NOTED) + 8 * unit
    noted = load(count)
    if noted < load(block + 8 * isa.L_NOTE_ROOM):
        at = notes + 8 * isa.NOTE_WORDS * noted
        store(at, row)
        store(at + 8, value)
        store(at + 16, cycles())
    store(count, noted + 1)


@inlined
def finish(team, block, worker, unit, stamped):  # type: ignore[no-untyped-def]
    """End a unit: record its number of stamps and publish its end."""
    store(load(block + 8 * isa.L_COUNTS) + 8 * unit, stamped)
    publish(team, worker, unit, isa.DONE)
    return 1


@words
def advance(team, block, worker, unit, turn):  # type: ignore[no-untyped-def]
    """Run a unit's rows: return 1 at END, 0 if it must wait or another worker shall carry it.

    In the latter case its line holds its position and what it awaits.
    """
    units = load(block + 8 * isa.L_UNITS)
    stride = load(block + 8 * isa.L_STRIDE)
    rows = load(load(block + 8 * isa.L_PROGRAMS) + 8 * unit)
    code = load(load(block + 8 * isa.L_CODE) + 8 * unit)
    slots = load(load(block + 8 * isa.L_SLOTS) + 8 * unit)
    registers = load(block + 8 * isa.L_REGISTERS) + load(block + 8 * isa.L_REGISTER_BYTES) * unit
    stack = load(block + 8 * isa.L_STACK) + load(block + 8 * isa.L_STACK_BYTES) * unit
    stamps = load(load(block + 8 * isa.L_STAMPS) + 8 * unit)
    room = load(block + 8 * isa.L_CAPACITY) if stamps != 0 else 0
    notes = load(load(block + 8 * isa.L_NOTES) + 8 * unit)
    line, here, home = steps(team, unit), mailbox(team, worker), mailbox(team, unit)
    here, home = here + 8 * isa.M_HERE, home + 8 * isa.M_HERE
    row, epoch = load(line + 8 * isa.S_ROW), load(line + 8 * isa.S_EPOCH)
    stamped = load(line + 8 * isa.S_STAMPED)
    awaited, least = unit, 0
    left = ROWS_BETWEEN_LOOKS
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
                begin = ordered_cycles()
                call_kernel(load(call), b, c, load(call + 8))
                end = ordered_cycles()
                if stamped < room:
                    stamp = stamps + 8 * isa.STAMP_WORDS * stamped
                    store(stamp, row - 1)
                    store(stamp + 8, begin)
                    store(stamp + 16, end)
                stamped += 1
            seen = load(at + 32)
            if seen > 0:
                publish(team, worker, unit, epoch * stride + seen)
        elif op == isa.WAIT:
            awaited, least = a, epoch * stride + b
            if wait_for_step(team, turn, awaited, least) == 0:
                row -= 1
                break
        elif op == isa.BARRIER:
            least = (epoch + 1) * stride
            if load(line + 8 * isa.S_STEP) < least:
                publish(team, worker, unit, least)
            awaited = find_missing(team, turn, unit, units, least)
            if awaited >= 0:
                row -= 1
                break
            epoch += 1
        elif op == isa.LOOK:
            where = load(slots + 8 * b)
            store(registers + 8 * a, load_byte(where) if c == 1 else load(where))
        elif op == isa.BRANCH:
            if notes != 0:
                note(block, unit, notes, row - 1, load(registers + 8 * a))
            if load(registers + 8 * a) == 0:
                row = b
        elif op == isa.LOOP:
            if load(registers + 8 * a) + load(at + 32) >= load(load(slots + 8 * b)):
                row = c
        elif op == isa.LET:
            store(registers + 8 * a, b)
            if notes != 0:
                note(block, unit, notes, row - 1, b)
        elif op == isa.NEXT:
            store(registers + 8 * a, load(registers + 8 * a) + 1 + b)
            if notes != 0:
                note(block, unit, notes, row - 1, load(registers + 8 * a))
        elif op == isa.STORE:
            if unit == 0 or load(at + 32) != 0:
                store(load(slots + 8 * a), load(registers + 8 * b) + c)
        elif op == isa.COPY:
            if load(at + 32) == 0:
                copy_part(team, load(slots + 8 * a), load(slots + 8 * b), c, unit, units)
            else:
                copy_part(team, load(slots + 8 * a), load(slots + 8 * b), c, 0, 1)
        elif op == isa.FILL:
            if unit == 0 or load(at + 32) != 0:
                if b == 1:
                    store_byte(load(slots + 8 * a), c)
                else:
                    store(load(slots + 8 * a), c)
        elif op == isa.JUMP:
            row = a
        elif op == isa.POINT:
            pointers = load(load(block + 8 * isa.L_POINTERS) + 8 * unit)
            size = 8 * isa.POINTER_WORDS
            point(pointers + size * a, pointers + size * b, load(registers + 8 * c))
        elif op == isa.CALL:
            depth = load(registers + 8 * a) + 1
            store(registers + 8 * a, depth)
            if notes != 0:
                note(block, unit, notes, row - 1, depth)
            frame = stack + 8 * (c + depth * load(at + 32))
            store(frame, row)
            save_registers(registers, a, frame, load(at + 32))
            row = b
        elif op == isa.RETURN:
            depth = load(registers + 8 * a)
            frame = stack + 8 * (b + depth * c)
            restore_registers(registers, a, frame, c)
            store(registers + 8 * a, depth - 1)
            row = load(frame)
        elif op == isa.DEEPEST:
            if load(registers + 8 * a) >= b:
                store(block + 8 * isa.L_FAULT, c)
                row = load(at + 32)
        elif op == isa.QUIT:
            if load(block + 8 * isa.L_FAULT) != 0:
                return finish(team, block, worker, unit, stamped)
        else:
            return finish(team, block, worker, unit, stamped)
        left -= 1
        if left == 0:
            left = ROWS_BETWEEN_LOOKS
            if worker == 0 and cycles() > load(mailbox(team, 0) + 8 * isa.M_LEAVE):
                store(here, 0)
        if load_acquire(here) != turn:
            awaited, least = unit, 0
            break
        if worker != unit and (load_acquire(home) == turn or is_free(team, worker, turn)):
            awaited, least = unit, 0
            break
    store(line + 8 * isa.S_ROW, row)
    store(line + 8 * isa.S_EPOCH, epoch)
    store(line + 8 * isa.S_STAMPED, stamped)
    store(line + 8 * isa.S_AWAITED, awaited)
    store(line + 8 * isa.S_LEAST, least)
    return 0
