"""Assignment of units to workers: a unit is virtual, and any thread may run its rows.

A worker claims its own unit first, and sets it aside where it must wait. An idle worker takes a
unit without a carrier at once, and sets it aside again when its own unit can continue. So the
caller does the work of workers that have not woken up, and of those that are not called because of
contention for their cores, and leaves it to those that arrive meanwhile.
"""

from __future__ import annotations

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.device_program.interpreter import advance
from explorer.runtime.device_program.intrinsics import (
    add,
    call_yield,
    cycles,
    exchange,
    load,
    load_acquire,
    pause,
    store,
    swap_if,
)
from explorer.runtime.device_program.llvm_words import inlined, words
from explorer.runtime.device_program.waiting import (
    contended,
    is_free,
    mailbox,
    notify,
    preempted_cycles,
    sleep_on,
    steps,
    wait_for_launch,
    wake,
)

NONE, OVER, TO_PYTHON = -1, -2, -3


@words
def claimable(team, worker, turn, late):  # type: ignore[no-untyped-def]
    """Return a unit to carry, its own first, or NONE.

    Another worker's unit that is about to be taken is left, unless that worker is late.
    """
    units = load(team + 8 * isa.T_UNITS)
    for n in range(units):
        unit = (worker + n) % units
        if is_free(team, unit, turn):
            here = load_acquire(mailbox(team, unit) + 8 * isa.M_HERE) == turn
            if unit == worker or not here or late:
                return unit
    return NONE


@words
def unfinished(team, worker):  # type: ignore[no-untyped-def]
    """Return an unfinished unit that the worker is responsible for, or NONE.

    That is its own unit; the caller is responsible for all.
    """
    last = load(team + 8 * isa.T_UNITS) if worker == 0 else worker + 1
    for unit in range(worker, last):
        if load_acquire(steps(team, unit) + 8 * isa.S_STEP) < isa.DONE:
            return unit
    return NONE


@words
def wait_target(team, worker, turn):  # type: ignore[no-untyped-def]
    """Return the unit whose next change concerns the worker, or NONE."""
    unit = unfinished(team, worker)
    if unit < 0 or load_acquire(team + 8 * isa.T_TURN) != turn:
        return NONE
    line = steps(team, unit)
    if load_acquire(line + 8 * isa.S_OWNER) == 2 * turn:
        return load(line + 8 * isa.S_AWAITED)
    return unit


@inlined
def park(team, worker, turn):  # type: ignore[no-untyped-def]
    """Sleep until a change concerns the worker."""
    unit = wait_target(team, worker, turn)
    if unit < 0:
        return
    line, here = steps(team, unit), mailbox(team, worker) + 8 * isa.M_HERE
    exchange(here, 0)
    add(line + 8 * isa.S_PARKED, 1)
    event = load_acquire(line + 8 * isa.S_EVENT)
    if claimable(team, worker, turn, 1) == NONE and wait_target(team, worker, turn) == unit:
        sleep_on(team, worker, line + 8 * isa.S_EVENT, event)
    add(line + 8 * isa.S_PARKED, -1)
    exchange(here, turn)


@words
def next_unit(team, worker, turn):  # type: ignore[no-untyped-def]
    """Return the next unit for the worker to carry, or OVER, or TO_PYTHON."""
    box = mailbox(team, worker)
    begin = cycles()
    while True:
        if worker > 0 and load_acquire(box + 8 * isa.M_HERE) != turn:
            return OVER  # another worker took its unit
        if worker == 0 and cycles() > load(box + 8 * isa.M_LEAVE):
            return TO_PYTHON
        late = cycles() - begin > load(team + 8 * isa.T_PATIENCE)
        unit = claimable(team, worker, turn, late)
        if unit >= 0:
            other = mailbox(team, unit) + 8 * isa.M_HERE
            if unit != worker and load_acquire(other) == turn:
                store(mailbox(team, unit) + 8 * isa.M_AWAY, 1)
                store(other, 0)
            return unit
        if unfinished(team, worker) < 0 or load_acquire(team + 8 * isa.T_TURN) != turn:
            return OVER
        if late:
            park(team, worker, turn)
            begin = cycles()
        pause()


@words
def carry(team, worker, turn):  # type: ignore[no-untyped-def]
    """Carry units, the own one first, until none is left: return OVER or TO_PYTHON."""
    unit = worker
    while unit >= 0:
        owner = steps(team, unit) + 8 * isa.S_OWNER
        mine = swap_if(owner, 2 * turn, 2 * turn + 1)
        if mine and unit != worker:
            add(team + 8 * isa.T_TAKEN, 1)
        if mine and advance(team, load(team + 8 * isa.T_LAUNCH), worker, unit, turn) == 0:
            exchange(owner, 2 * turn)
            notify(team, unit)
        unit = next_unit(team, worker, turn)
    return unit


@inlined
def move(block):  # type: ignore[no-untyped-def]
    """Point a launch's tables to this run's inputs and outputs."""
    at = load(block + 8 * isa.L_MOVES)
    bases = load(block + 8 * isa.L_BASES)
    for _ in range(load(block + 8 * isa.L_MOVED)):
        store(load(at), load(bases + 8 * load(at + 8)) + load(at + 16))
        at += 8 * isa.MOVE_WORDS


@inlined
def begin(team, block):  # type: ignore[no-untyped-def]
    """Set every unit of a launch to its first row, without a carrier; return the launch's turn."""
    units = load(block + 8 * isa.L_UNITS)
    store(block + 8 * isa.L_BEGIN, cycles())
    store(block + 8 * isa.L_FAULT, 0)
    move(block)
    turn = load(team + 8 * isa.T_TURN) + 1
    exchange(team + 8 * isa.T_TURN, turn)
    store(team + 8 * isa.T_LAUNCH, block)
    store(team + 8 * isa.T_UNITS, units)
    for unit in range(units):
        line = steps(team, unit)
        for word in range(isa.S_ROW, isa.S_LEAST + 1):
            store(line + 8 * word, 0)
        exchange(line + 8 * isa.S_STEP, 0)
        exchange(line + 8 * isa.S_OWNER, 2 * turn)
    return turn


@inlined
def call_up(team, workers, turn):  # type: ignore[no-untyped-def]
    """Call the workers to a launch, except those whose cores are contended."""
    now = cycles()
    for worker in range(1, workers):
        box = mailbox(team, worker)
        if now >= load(box + 8 * isa.M_RETRY):
            exchange(box + 8 * isa.M_TURN, turn)
            if load_acquire(box + 8 * isa.M_PARKED) > 0:
                wake(team, box + 8 * isa.M_TURN)
            elif load_acquire(box + 8 * isa.M_AWAY) == 0:
                store(box + 8 * isa.M_HERE, turn)


@inlined
def resume(team, block):  # type: ignore[no-untyped-def]
    """Run the caller's part of a launch: return 0 when all is over, 1 to check Python's signals."""
    box = mailbox(team, 0)
    turn = load(team + 8 * isa.T_TURN)
    exchange(box + 8 * isa.M_HERE, turn)
    store(box + 8 * isa.M_LEAVE, cycles() + load(team + 8 * isa.T_BREATH))
    if carry(team, 0, turn) == TO_PYTHON:
        exchange(box + 8 * isa.M_HERE, 0)
        return 1
    store(block + 8 * isa.L_END, cycles())
    return 0


@inlined
def launch(team, block):  # type: ignore[no-untyped-def]
    """Run a launch with the calling thread as worker 0; return 0 at its end, else resume later."""
    turn = begin(team, block)
    call_up(team, min(load(team + 8 * isa.T_WORKERS), load(block + 8 * isa.L_UNITS)), turn)
    return resume(team, block)


@inlined
def abandon(team):  # type: ignore[no-untyped-def]
    """End a launch whose units have not ended; return when no worker carries one."""
    turn = load(team + 8 * isa.T_TURN)
    for unit in range(load(team + 8 * isa.T_UNITS)):
        line = steps(team, unit)
        while load_acquire(line + 8 * isa.S_STEP) < isa.DONE:
            for worker in range(load(team + 8 * isa.T_WORKERS)):
                exchange(mailbox(team, worker) + 8 * isa.M_HERE, 0)
            if swap_if(line + 8 * isa.S_OWNER, 2 * turn, 2 * turn + 1):
                exchange(line + 8 * isa.S_STEP, isa.DONE)
                notify(team, unit)
            call_yield(load(team + 8 * isa.T_YIELD))


@inlined
def serve(team, worker):  # type: ignore[no-untyped-def]
    """Take part in one launch after the other until the team stops (a worker's life)."""
    box = mailbox(team, worker)
    turn = load(box + 8 * isa.M_SEEN)
    if load(team + 8 * isa.T_CLOCK) != 0:
        preempted_cycles(team, worker)  # start of the measurement
    while True:
        turn = wait_for_launch(team, worker, turn)
        if load_acquire(team + 8 * isa.T_STOP) != 0:
            return
        store(box + 8 * isa.M_AWAY, 0)
        exchange(box + 8 * isa.M_HERE, turn)
        carry(team, worker, turn)
        contended(team, worker)


@inlined
def stop(team, workers):  # type: ignore[no-untyped-def]
    """Call every worker, so that it sees that the team stops."""
    turn = load(team + 8 * isa.T_TURN) + 1
    exchange(team + 8 * isa.T_TURN, turn)
    for worker in range(1, workers):
        box = mailbox(team, worker)
        exchange(box + 8 * isa.M_TURN, turn)
        wake(team, box + 8 * isa.M_TURN)


@inlined
def one_row(team, unit):  # type: ignore[no-untyped-def]
    """Run a unit's next row: return 2 at its END, 0 if it must wait, else 1."""
    turn = load(team + 8 * isa.T_TURN)
    line = steps(team, unit)
    exchange(mailbox(team, unit) + 8 * isa.M_HERE, 0)
    if swap_if(line + 8 * isa.S_OWNER, 2 * turn, 2 * turn + 1) == 0:
        return 2
    if advance(team, load(team + 8 * isa.T_LAUNCH), unit, unit, turn):
        return 2
    exchange(line + 8 * isa.S_OWNER, 2 * turn)
    return 1 if load(line + 8 * isa.S_LEAST) == 0 else 0


@words
def entry(ask, team, what):  # type: ignore[no-untyped-def]
    """Run one of the operations that Python asks for: clock, launch, or service as a worker."""
    if ask == isa.ASK_CYCLES:
        return cycles()
    if ask == isa.ASK_LAUNCH:
        return launch(team, what)
    if ask == isa.ASK_RESUME:
        return resume(team, what)
    if ask == isa.ASK_ABANDON:
        abandon(team)
    elif ask == isa.ASK_SERVE:
        serve(team, what)
    elif ask == isa.ASK_STOP:
        stop(team, what)
    elif ask == isa.ASK_BEGIN:
        return begin(team, what)
    elif ask == isa.ASK_ROW:
        return one_row(team, what)
    return 0
