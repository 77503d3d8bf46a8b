"""Waiting of workers: spin for a moment, then sleep until the awaited word has changed.

No wake-up may be lost: a writer checks after its write for sleepers; a sleeper announces itself
first, and then checks again (Dekker's order, with one order of all writes).
"""

from __future__ import annotations

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.device_program.intrinsics import (
    add,
    call_clock,
    call_futex,
    call_sleep,
    call_yield,
    cycles,
    exchange,
    load,
    load_acquire,
    pause,
    store,
)
from explorer.runtime.device_program.llvm_words import inlined, words

FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE, EVERYONE = 128, 129, 1 << 30
SLEEP_US = 200  # without a futex; chosen
CHECKS_BETWEEN_LOOKS = 32  # of a word between reads of the clock; chosen, not measured


@words
def mailbox(team, worker):  # type: ignore[no-untyped-def]
    """Return the address of a worker's line."""
    return team + isa.LINE_BYTES * (isa.TEAM_LINES + 2 * worker)


@words
def steps(team, unit):  # type: ignore[no-untyped-def]
    """Return the address of a unit's line."""
    return team + isa.LINE_BYTES * (isa.TEAM_LINES + 1 + 2 * unit)


@words
def sleep_on(team, worker, word, seen):  # type: ignore[no-untyped-def]
    """Give up the core until the word's low half is no longer `seen`, or a wake-up comes."""
    begin = cycles()
    number = load(team + 8 * isa.T_FUTEX)
    if number == 0:
        call_sleep(load(team + 8 * isa.T_SLEEP), SLEEP_US)
    else:
        call = load(team + 8 * isa.T_SYSCALL)
        longest = team + 8 * isa.T_NAP if worker == 0 else 0
        call_futex(call, number, word, FUTEX_WAIT_PRIVATE, seen & 0xFFFFFFFF, longest)
    slept = mailbox(team, worker) + 8 * isa.M_SLEPT
    store(slept, load(slept) + cycles() - begin)


@words
def wake(team, word):  # type: ignore[no-untyped-def]
    """Wake all workers that sleep on a word."""
    number = load(team + 8 * isa.T_FUTEX)
    if number != 0:
        call_futex(load(team + 8 * isa.T_SYSCALL), number, word, FUTEX_WAKE_PRIVATE, EVERYONE, 0)


@words
def notify(team, unit):  # type: ignore[no-untyped-def]
    """Wake the workers that sleep on a changed unit; return 1 if there are any."""
    line = steps(team, unit)
    if load_acquire(line + 8 * isa.S_PARKED) == 0:
        return 0
    add(line + 8 * isa.S_EVENT, 1)
    wake(team, line + 8 * isa.S_EVENT)
    return 1


@words
def is_free(team, unit, turn):  # type: ignore[no-untyped-def]
    """Return 1 if no worker carries a unit, and the step that it awaits is published."""
    line = steps(team, unit)
    if load_acquire(line + 8 * isa.S_OWNER) != 2 * turn:
        return 0
    step = load_acquire(steps(team, load(line + 8 * isa.S_AWAITED)) + 8 * isa.S_STEP)
    return 1 if step >= load(line + 8 * isa.S_LEAST) else 0


@words
def wait_for_step(team, turn, unit, least):  # type: ignore[no-untyped-def]
    """Spin briefly for a unit's step and return 1 if it is published.

    Do not spin for a unit that no worker carries.
    """
    line = steps(team, unit)
    if load_acquire(line + 8 * isa.S_STEP) >= least:
        return 1
    begin = cycles()
    spin = load(team + 8 * isa.T_SPIN)
    while load_acquire(line + 8 * isa.S_OWNER) != 2 * turn:
        for _ in range(CHECKS_BETWEEN_LOOKS):
            if load_acquire(line + 8 * isa.S_STEP) >= least:
                return 1
            pause()
        if cycles() - begin >= spin:
            break
    return 1 if load_acquire(line + 8 * isa.S_STEP) >= least else 0


@words
def preempted_cycles(team, worker):  # type: ignore[no-untyped-def]
    """Return the cycles that the worker neither ran nor slept since the last call.

    A quarter of the cycles that it ran is deducted: one process that comes and goes does no harm.
    """
    box = mailbox(team, worker)
    call_clock(
        load(team + 8 * isa.T_CLOCK), load(team + 8 * isa.T_CLOCK_ID), box + 8 * isa.M_SECONDS
    )
    wall = cycles()
    cpu = load(box + 8 * isa.M_SECONDS) * 1_000_000_000 + load(box + 8 * isa.M_NS)
    ran = (cpu - load(box + 8 * isa.M_CPU)) // 1000 * load(team + 8 * isa.T_PER_MS) // 1000
    gone = wall - load(box + 8 * isa.M_WALL) - load(box + 8 * isa.M_SLEPT) - ran
    store(box + 8 * isa.M_WALL, wall)
    store(box + 8 * isa.M_CPU, cpu)
    store(box + 8 * isa.M_SLEPT, 0)
    return gone - ran // 4


@inlined
def wait_for_launch(team, worker, turn):  # type: ignore[no-untyped-def]
    """Return the next launch that the worker is called to.

    A worker that slept only briefly last time stays awake for longer: runs come in quick
    succession. Preemption while idle is not counted.
    """
    box = mailbox(team, worker)
    begin = cycles()
    spin, patience = load(team + 8 * isa.T_SPIN), load(box + 8 * isa.M_IDLE)
    gone = 0
    while gone < patience:
        for _ in range(CHECKS_BETWEEN_LOOKS):
            seen = load_acquire(box + 8 * isa.M_TURN)
            if seen > turn:
                if gone >= spin and load(team + 8 * isa.T_CLOCK) != 0:
                    preempted_cycles(team, worker)
                return seen
            pause()
        gone = cycles() - begin
        if gone >= spin:
            call_yield(load(team + 8 * isa.T_YIELD))
    add(box + 8 * isa.M_PARKED, 1)
    seen = load_acquire(box + 8 * isa.M_TURN)
    while seen <= turn:
        sleep_on(team, worker, box + 8 * isa.M_TURN, seen)
        seen = load_acquire(box + 8 * isa.M_TURN)
    add(box + 8 * isa.M_PARKED, -1)
    longest = load(team + 8 * isa.T_IDLE)
    soon = cycles() - begin < longest
    store(box + 8 * isa.M_IDLE, longest if soon else load(team + 8 * isa.T_PATIENCE))
    if load(team + 8 * isa.T_CLOCK) != 0:
        preempted_cycles(team, worker)
    return seen


@words
def contended(team, worker):  # type: ignore[no-untyped-def]
    """Return 1 if others use the worker's core for much of its time.

    It is then not called for a while, twice as long each time.
    """
    if load(team + 8 * isa.T_CLOCK) == 0:
        return 0
    box = mailbox(team, worker)
    missed = max(0, load(box + 8 * isa.M_LOST) + preempted_cycles(team, worker))
    store(box + 8 * isa.M_LOST, missed)
    most = load(team + 8 * isa.T_LOST)
    if missed == 0:
        store(box + 8 * isa.M_BACKOFF, 0)
    if missed < most:
        return 0
    backoff = max(2 * load(box + 8 * isa.M_BACKOFF), load(team + 8 * isa.T_BACKOFF))
    backoff = min(backoff, load(team + 8 * isa.T_LONGEST))
    store(box + 8 * isa.M_BACKOFF, backoff)
    store(box + 8 * isa.M_RETRY, cycles() + backoff)
    store(box + 8 * isa.M_LOST, most // 2)
    return 1


@words
def publish(team, worker, unit, value):  # type: ignore[no-untyped-def]
    """Publish a unit's step, with all earlier writes.

    If others slept for it because the worker does not have its core for itself, the worker leaves.
    """
    exchange(steps(team, unit) + 8 * isa.S_STEP, value)
    if notify(team, unit) and worker > 0 and contended(team, worker):
        store(mailbox(team, worker) + 8 * isa.M_HERE, 0)
