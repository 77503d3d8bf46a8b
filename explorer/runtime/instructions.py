"""The device program's instruction set, and where its words lie in memory.

A row is `ROW_WORDS` words: operation, a, b, c, d. Every unit has rows of its own; all units take
the same branches.

    RUN call first last publish   run tasks first..last-1 of a call; if publish > 0, show that step
    WAIT unit step                until that unit has shown this step
    BARRIER                       until every unit is here
    BRANCH slot bytes target      all units read one scalar; where it is zero, go to row `target`
    LOOP register slot target     where the register has reached the int64 at `slot`, go to `target`
    LET register value            write a register
    NEXT register                 add one to a register
    STORE slot register           unit 0 writes a register to memory as int64
    COPY target source bytes      each unit copies its part; no barrier
    FILL slot bytes value         unit 0 writes a small number to memory: one byte, or an int64
    JUMP target
    END
"""

from __future__ import annotations

RUN, WAIT, BARRIER, BRANCH, LOOP, LET, NEXT, STORE, COPY, FILL, JUMP, END = range(12)
ROW_WORDS = 5
ROW_BYTES = 8 * ROW_WORDS
REGISTERS = 32  # of a unit: one for each loop that is open

# The launch block: one for each arena, so that two runs never share one.
L_UNITS, L_STRIDE, L_PROGRAMS, L_CODE, L_SLOTS, L_REGISTERS = range(6)
L_STAMPS, L_CAPACITY, L_COUNTS, L_BEGIN, L_END = range(6, 11)
L_MOVES, L_MOVED, L_BASES = range(11, 14)  # rows of what moves, how many, and what they count from
LAUNCH_WORDS = 16
MOVE_WORDS = 3  # where the address is written, its base's number, its offset from there
CODE_WORDS = 2  # of a call: kernel address, address of this unit's arguments
STAMP_WORDS = 3  # row, cycles at its start, cycles at its end

# The team block: one line for what all share, then two lines for each unit.
LINE_BYTES = 128  # two cache lines: the second is fetched with the first
T_YIELD, T_SLEEP, T_MOVE, T_SYSCALL, T_FUTEX, T_SPIN, T_PATIENCE, T_LAUNCH = range(8)
T_STOP, T_TURN = 8, 9
UNIT_LINES = 2
M_TURN, M_PARKED, M_SEEN = range(3)  # mailbox: launch to take part in; asleep?; last before birth
S_STEP, S_PARKED = range(2)  # a unit's step line: what it has shown; how many sleep on it
MAX_UNITS = 256
TEAM_BYTES = LINE_BYTES * (1 + UNIT_LINES * MAX_UNITS)

DONE = (1 << 62) + 0x5A5A5A5A  # shown at the end; the low half is no step's, for who sleeps on it

# What the compiled entry function can be asked to do.
ASK_CYCLES, ASK_LAUNCH, ASK_SERVE, ASK_STOP = range(4)
