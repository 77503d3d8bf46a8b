"""Who carries which unit: a unit is virtual, any thread may follow its rows from one to the next.

A hand claims its own unit when it comes, and sets it aside where it must wait. A unit that nobody
carries is taken at once by whoever has nothing else to do: so the caller does the work of workers
that have not woken up, and of those that are not called because others want their cores.
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
    called,
    contended,
    lost,
    mailbox,
    notify,
    sleep_on,
    steps,
    wake,
)

NONE, OVER, TO_PYTHON = -1, -2, -3


@words
def is_free(team, unit, turn):  # type: ignore[no-untyped-def]
    """Whether nobody carries a unit, and what it awaits has come."""
    line = steps(team, unit)
    if load_acquire(line + 8 * isa.S_OWNER) != 2 * turn:
        return 0
    step = load_acquire(steps(team, load(line + 8 * isa.S_AWAITED)) + 8 * isa.S_STEP)
    return 1 if step >= load(line + 8 * isa.S_LEAST) else 0


@words
def found(team, hand, turn, late):  # type: ignore[no-untyped-def]
    """A unit to carry, its own first: no other's that is about to take it, unless that one is
    late."""
    units = load(team + 8 * isa.T_UNITS)
    for n in range(units):
        unit = (hand + n) % units
        if is_free(team, unit, turn):
            here = load_acquire(mailbox(team, unit) + 8 * isa.M_HERE) == turn
            if unit == hand or not here or late:
                return unit
    return NONE


@words
def unfinished(team, hand):  # type: ignore[no-untyped-def]
    """What a hand must see the end of: a worker its own unit, the caller every one; or NONE."""
    last = load(team + 8 * isa.T_UNITS) if hand == 0 else hand + 1
    for unit in range(hand, last):
        if load_acquire(steps(team, unit) + 8 * isa.S_STEP) < isa.DONE:
            return unit
    return NONE


@words
def bed(team, hand, turn):  # type: ignore[no-untyped-def]
    """The unit whose next change concerns the hand."""
    unit = unfinished(team, hand)
    if unit < 0 or load_acquire(team + 8 * isa.T_TURN) != turn:
        return NONE
    line = steps(team, unit)
    if load_acquire(line + 8 * isa.S_OWNER) == 2 * turn:
        return load(line + 8 * isa.S_AWAITED)
    return unit


@inlined
def rest(team, hand, turn):  # type: ignore[no-untyped-def]
    """Sleep until something has changed that concerns the hand."""
    unit = bed(team, hand, turn)
    if unit < 0:
        return
    line, here = steps(team, unit), mailbox(team, hand) + 8 * isa.M_HERE
    exchange(here, 0)
    add(line + 8 * isa.S_PARKED, 1)
    event = load_acquire(line + 8 * isa.S_EVENT)
    if found(team, hand, turn, 1) == NONE and bed(team, hand, turn) == unit:
        sleep_on(team, hand, line + 8 * isa.S_EVENT, event)
    add(line + 8 * isa.S_PARKED, -1)
    exchange(here, turn)


@words
def sought(team, hand, turn):  # type: ignore[no-untyped-def]
    """The next unit that the hand shall carry, or OVER, or TO_PYTHON."""
    box = mailbox(team, hand)
    begin = cycles()
    while True:
        if hand > 0 and load_acquire(box + 8 * isa.M_HERE) != turn:
            return OVER  # another hand has lost patience
        if hand == 0 and cycles() > load(box + 8 * isa.M_LEAVE):
            return TO_PYTHON
        late = cycles() - begin > load(team + 8 * isa.T_PATIENCE)
        unit = found(team, hand, turn, late)
        if unit >= 0:
            other = mailbox(team, unit) + 8 * isa.M_HERE
            if unit != hand and load_acquire(other) == turn:
                store(mailbox(team, unit) + 8 * isa.M_AWAY, 1)
                store(other, 0)
            return unit
        if unfinished(team, hand) < 0 or load_acquire(team + 8 * isa.T_TURN) != turn:
            return OVER
        if late:
            rest(team, hand, turn)
            begin = cycles()
        pause()


@words
def carry(team, hand, turn):  # type: ignore[no-untyped-def]
    """Carry units, the own one first, until nothing is left to do: OVER or TO_PYTHON."""
    unit = hand
    while unit >= 0:
        owner = steps(team, unit) + 8 * isa.S_OWNER
        mine = swap_if(owner, 2 * turn, 2 * turn + 1)
        if mine and unit != hand:
            add(team + 8 * isa.T_TAKEN, 1)
        if mine and advance(team, load(team + 8 * isa.T_LAUNCH), hand, unit, turn) == 0:
            exchange(owner, 2 * turn)
            notify(team, unit)
        unit = sought(team, hand, turn)
    return unit


@inlined
def move(block):  # type: ignore[no-untyped-def]
    """Let a launch's tables point to where this run's inputs and outputs lie."""
    at = load(block + 8 * isa.L_MOVES)
    bases = load(block + 8 * isa.L_BASES)
    for _ in range(load(block + 8 * isa.L_MOVED)):
        store(load(at), load(bases + 8 * load(at + 8)) + load(at + 16))
        at += 8 * isa.MOVE_WORDS


@inlined
def begin(team, block):  # type: ignore[no-untyped-def]
    """Let every unit of a launch stand at its first row, carried by nobody; the launch's turn."""
    units = load(block + 8 * isa.L_UNITS)
    store(block + 8 * isa.L_BEGIN, cycles())
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
def call_up(team, hands, turn):  # type: ignore[no-untyped-def]
    """Tell the workers that it is their turn, but for those whose cores others want."""
    now = cycles()
    for hand in range(1, hands):
        box = mailbox(team, hand)
        if now >= load(box + 8 * isa.M_RETRY):
            exchange(box + 8 * isa.M_TURN, turn)
            if load_acquire(box + 8 * isa.M_PARKED) > 0:
                wake(team, box + 8 * isa.M_TURN)
            elif load_acquire(box + 8 * isa.M_AWAY) == 0:
                store(box + 8 * isa.M_HERE, turn)


@inlined
def resume(team, block):  # type: ignore[no-untyped-def]
    """The caller's part of a launch: 0 when all is over, 1 for Python to look at its signals."""
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
    """Run a launch with the calling thread as hand 0; 0 when every unit has ended, else resume."""
    turn = begin(team, block)
    call_up(team, min(load(team + 8 * isa.T_HANDS), load(block + 8 * isa.L_UNITS)), turn)
    return resume(team, block)


@inlined
def abandon(team):  # type: ignore[no-untyped-def]
    """End a launch whose units have not ended; returns when no hand carries one."""
    turn = load(team + 8 * isa.T_TURN)
    for unit in range(load(team + 8 * isa.T_UNITS)):
        line = steps(team, unit)
        while load_acquire(line + 8 * isa.S_STEP) < isa.DONE:
            for hand in range(load(team + 8 * isa.T_HANDS)):
                exchange(mailbox(team, hand) + 8 * isa.M_HERE, 0)
            if swap_if(line + 8 * isa.S_OWNER, 2 * turn, 2 * turn + 1):
                exchange(line + 8 * isa.S_STEP, isa.DONE)
                notify(team, unit)
            call_yield(load(team + 8 * isa.T_YIELD))


@inlined
def serve(team, hand):  # type: ignore[no-untyped-def]
    """A worker's life: take part in one launch after the other until the team stops."""
    box = mailbox(team, hand)
    turn = load(box + 8 * isa.M_SEEN)
    if load(team + 8 * isa.T_CLOCK) != 0:
        lost(team, hand)  # from here on
    while True:
        turn = called(team, hand, turn)
        if load_acquire(team + 8 * isa.T_STOP) != 0:
            return
        store(box + 8 * isa.M_AWAY, 0)
        exchange(box + 8 * isa.M_HERE, turn)
        carry(team, hand, turn)
        contended(team, hand)


@inlined
def stop(team, hands):  # type: ignore[no-untyped-def]
    """Call every worker up, to see that the team stops."""
    turn = load(team + 8 * isa.T_TURN) + 1
    exchange(team + 8 * isa.T_TURN, turn)
    for hand in range(1, hands):
        box = mailbox(team, hand)
        exchange(box + 8 * isa.M_TURN, turn)
        wake(team, box + 8 * isa.M_TURN)


@inlined
def one_row(team, unit):  # type: ignore[no-untyped-def]
    """Do a unit's next row: 2 where that was its END, 0 where it must wait, else 1."""
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
    """The one function that Python calls: read the clock, run a launch, or serve as a hand."""
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
