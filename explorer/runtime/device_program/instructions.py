"""Instruction set of device programs, and the layout of its words in memory.

A row is `ROW_WORDS` words: operation, a, b, c, d. Every unit has rows of its own; all units take
the same branches. A row that waits can be tried again; the others complete at once.

    RUN call first last publish   run tasks first..last-1 of a call; if publish > 0, publish it
    WAIT unit step                wait until that unit has published this step
    BARRIER                       wait until every unit is here
    LOOK register slot bytes      read a scalar into a register; all units read the same one, as a
                                  barrier separates the read from writes, before and after
    BRANCH register target        where the register is zero, go to row `target`
    LOOP register slot target more  where the register plus `more` has reached the int64 at `slot`,
                                  go to `target`
    LET register value            write a register
    NEXT register more            add one to a register, and `more`
    STORE slot register more own  unit 0 writes a register plus `more` to memory as int64, or each
                                  unit if `own` is 1
    COPY target source bytes all  each unit copies its part, or everything if `all` is 1; no barrier
    FILL slot bytes value own     unit 0, or each if `own` is 1, writes a small number to memory: a
                                  byte, or an int64
    JUMP target
    POINT first last register     set the pointers first..last-1 of this unit by a loop's count
    CALL register target stack words   increment the register, save the return row and the registers
                                  after it in `words` words of the unit's stack; go to `target`
    RETURN register stack words   restore what was saved, decrement the register, and go back
    DEEPEST register most fault target   where the register has reached `most`, set `fault` and go
                                  to `target`
    QUIT                          end here if a fault is set
    END
"""

from __future__ import annotations

RUN, WAIT, BARRIER, LOOK, BRANCH, LOOP, LET, NEXT, STORE, COPY, FILL, JUMP, POINT, END = range(14)
CALL, RETURN, DEEPEST, QUIT = range(14, 18)
ROW_WORDS = 5
ROW_BYTES = 8 * ROW_WORDS
REGISTERS = 32  # of a unit, by default

# The launch block: one for each arena, so that two runs never share one.
L_UNITS, L_STRIDE, L_PROGRAMS, L_CODE, L_SLOTS, L_REGISTERS = range(6)
L_STAMPS, L_CAPACITY, L_COUNTS, L_BEGIN, L_END = range(6, 11)
L_MOVES, L_MOVED, L_BASES = range(11, 14)  # rows of addresses to set, their number, their bases
L_POINTERS = 14  # of each unit: rows of pointers that move with a loop
L_REGISTER_BYTES = 15  # of a unit: one for each open loop, and one for a scalar
L_STACK, L_STACK_BYTES = 16, 17  # address of the first unit's stack, and bytes of each
L_FAULT = 18  # the fault that ended the run early, or 0
# address of each unit's notes, or 0; count of each; room for notes
L_NOTES, L_NOTED, L_NOTE_ROOM = 19, 20, 21
LAUNCH_WORDS = 22
MOVE_WORDS = 3  # target address, number of its base, offset from it
POINTER_WORDS = 4  # target, source pointer, bytes a trip, offset
CODE_WORDS = 2  # of a call: kernel address, address of this unit's arguments
STAMP_WORDS = 3  # row, cycles at its start, cycles at its end
NOTE_WORDS = 3  # row of a LET, NEXT, BRANCH or CALL, its register then, cycles

# The team block: shared lines, then one for each worker and one for each unit. A worker
# is a thread, worker 0 the caller; worker n prefers unit n, and may carry any.
LINE_BYTES = 128  # two cache lines: the second is fetched with the first
LINE_WORDS = LINE_BYTES // 8
T_YIELD, T_SLEEP, T_MOVE, T_SYSCALL, T_CLOCK = range(5)  # functions of the C library
# number of the futex call and of the clock; workers with the caller
T_FUTEX, T_CLOCK_ID, T_WORKERS = 5, 6, 7
T_SPIN, T_PATIENCE, T_IDLE, T_LOST, T_BACKOFF, T_LONGEST, T_BREATH = range(8, 15)  # cycles
T_PER_MS = 15  # cycles
T_LAUNCH, T_UNITS, T_TURN, T_STOP = range(16, 20)
T_TAKEN = 20  # count of units taken from other workers
T_NAP = 22  # seconds, nanoseconds: longest sleep of the caller, for signals
# launch it is called to; asleep?; last launch before its start; launch it takes part in
M_TURN, M_PARKED, M_SEEN, M_HERE = range(4)
# missed last time?; cycles to stay awake; cycle to return to Python
M_AWAY, M_IDLE, M_LEAVE = range(4, 7)
M_WALL, M_CPU, M_SLEPT, M_SECONDS, M_NS, M_LOST = range(8, 14)  # cycles of preemption
M_RETRY, M_BACKOFF = 14, 15  # not called before this cycle; length of that pause
S_STEP, S_PARKED, S_EVENT, S_OWNER = range(4)  # published step; sleepers; events; carrier
# its position; the unit and step that it awaits
S_ROW, S_EPOCH, S_STAMPED, S_AWAITED, S_LEAST = range(8, 13)
MAX_UNITS = 256
TEAM_LINES = 2
TEAM_BYTES = LINE_BYTES * (TEAM_LINES + 2 * MAX_UNITS)

DONE = 1 << 62  # published at the end

# Operations of the compiled entry function.
ASK_CYCLES, ASK_LAUNCH, ASK_RESUME, ASK_ABANDON, ASK_SERVE, ASK_STOP, ASK_BEGIN, ASK_ROW = range(8)
