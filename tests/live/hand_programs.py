"""Rows by hand that run twice: by the interpreter of the runtime, and by that of the live page."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, Pointer, rows_of
from explorer.runtime.workers.workers import teams
from tests.live.hand_modules import KERNELS
from tests.runtime.hand_kernels import add_tasks, note

Row = tuple[int, int, int, int, int]
NAMES = {"note": note, "add_tasks": add_tasks}
NUMBER = {"note": 0, "add_tasks": 1, "burn": 2, "trap": 3}
STOP = (isa.END, 0, 0, 0, 0)
RUN_ALL = """
const out = [];
for (const { program, inputs, times } of given.cases) {
  const weights = new Uint8Array(program.weights);
  const runner = await live.program.openProgram(program, bytes(given.code), weights);
  let fault = "";
  for (let k = 0; k < (times ?? 1); k++) {
    inputs.forEach((input, index) => runner.write(index, bytes(input)));
    try { runner.run(); } catch (problem) { fault = problem.sentence ?? problem.stack; }
  }
  out.push({ outputs: program.inputs.map((_, index) => text(runner.read(index))), fault });
}
say(out);
"""


@dataclass
class HandProgram:
    """Rows over one array of int64 words; a place is the number of a word.

    `calls`: of each the kernel and its arguments, a place or ("n", a number).
    """

    words: np.ndarray
    rows: list[Row]
    calls: list[tuple[str, list[Any]]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    pointers: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    stack: int = 0
    faults: list[str] = field(default_factory=list)

    def portable(self) -> dict[str, Any]:
        """The program as `explorer.portable.program` writes it; its words are its only input."""

        def place(value: Any) -> list[Any]:
            return list(value) if isinstance(value, tuple) else ["i", 0, 8 * value]

        args, calls = [], []
        for n, (kernel, values) in enumerate(self.calls):
            calls.append([NUMBER[kernel], len(args), f"call_{n}", [f"node_{n}"]])
            args += [place(v if not isinstance(v, tuple) else ("n", 0, v[1])) for v in values]
        tensor = {"dtype": "int64", "shape": list(self.words.shape), "bytes": self.words.nbytes}
        launch = {
            "rows": [list(r) for r in (*self.rows, STOP)],
            "calls": calls,
            "slots": [place(s) for s in self.slots],
            "pointers": [list(p) for p in self.pointers],
            "registers": isa.REGISTERS,
            "stack": self.stack,
            "faults": self.faults,
        }
        return {
            "format": 1,
            "name": "by_hand",
            "device": "wasm-simd128",
            "sizes": {},
            "inputs": [{"name": "x", **tensor}],
            "outputs": [{"name": "y", **tensor}],
            **{"arena": 64, "scratch": 0, "weights": 0, "kernels": list(NUMBER), "args": args},
            "launches": [launch],
            "copies": [[0, ["i", 0, 0], self.words.nbytes]],
        }

    def case(self, times: int = 1) -> dict[str, Any]:
        """What the script takes."""
        words = b64encode(self.words.tobytes()).decode()
        return {"program": self.portable(), "inputs": [words], "times": times}

    def native(self) -> tuple[np.ndarray, str]:
        """The words after a run of the runtime's interpreter, and the sentence of its fault."""
        words = self.words.copy()
        launch = Launch(
            [rows_of([*self.rows, STOP])],
            len(self.calls),
            len(self.slots),
            len(self.pointers),
            stack=self.stack,
        )
        base = address_of(words)
        blocks = [
            np.array([v[1] if isinstance(v, tuple) else base + 8 * v for v in values], np.int64)
            for _, values in self.calls
        ]
        for n, (kernel, _) in enumerate(self.calls):
            launch.code[0, n] = NAMES[kernel].address, address_of(blocks[n])
        launch.slots[0, : len(self.slots)] = [base + 8 * s for s in self.slots]
        for n, row in enumerate(self.pointers):
            launch.point(0, n, Pointer(*row), 0)
        launch.run(teams())
        return words, self.faults[launch.fault - 1] if launch.fault else ""


def run_in_node(in_node: Any, programs: list[HandProgram], times: int = 1) -> list[Any]:
    """The words and the fault of each program, from one process of Node."""
    code = b64encode(KERNELS).decode()
    given = {"code": code, "cases": [p.case(times) for p in programs]}
    return [
        (np.frombuffer(b64decode(row["outputs"][0]), np.int64), row["fault"])
        for row in in_node(RUN_ALL, given)
    ]


WORDS, LIMITS, NOTES = 96, 8, 4000  # data; numbers of trips, which stay; room for notes


class Written:
    """A random program of loops, branches and what may stand in them."""

    def __init__(self, seed: int) -> None:
        self.rnd = Random(seed)
        words = np.zeros(WORDS + LIMITS + 1 + 3 * NOTES, np.int64)
        words[:WORDS] = [self.rnd.choice([0, 0, 1, 5, -7, 1 << 40]) for _ in range(WORDS)]
        words[WORDS : WORDS + LIMITS] = [self.rnd.choice([0, 1, 2, 3, 4]) for _ in range(LIMITS)]
        self.program = HandProgram(words, [])
        self.registers = 0
        self.parts(self.rnd.randint(2, 4), 0)

    def emit(self, op: int, *numbers: int) -> int:
        row = (op, *numbers, *[0] * (4 - len(numbers)))
        self.program.rows.append(row)  # type: ignore[arg-type]
        return len(self.program.rows) - 1

    def aim(self, row: int, column: int) -> None:
        values = list(self.program.rows[row])
        values[column] = len(self.program.rows)
        self.program.rows[row] = tuple(values)  # type: ignore[assignment]

    def slot(self, place: int) -> int:
        self.program.slots.append(place)
        return len(self.program.slots) - 1

    def call(self, kernel: str, values: list[Any]) -> int:
        self.program.calls.append((kernel, values))
        return len(self.program.calls) - 1

    def parts(self, count: int, depth: int) -> None:
        for _ in range(count):
            kinds = [self.note, self.add, self.fill, self.copy, self.nothing]
            if self.registers:
                kinds += [self.store]
            if depth < 3:
                kinds += [self.loop, self.branch, self.loop] if depth else [self.loop, self.branch]
            part = self.rnd.choice(kinds)
            part(depth) if part in (self.loop, self.branch) else part()

    def note(self) -> None:
        count, row = WORDS + LIMITS, WORDS + LIMITS + 1
        number = len(self.program.calls)
        first = self.rnd.randint(0, 5)
        call = self.call("note", [count, row, ("n", number)])
        self.emit(isa.RUN, call, first, first + self.rnd.randint(0, 9), 1)

    def add(self) -> None:
        x, y = self.rnd.randint(0, WORDS - 40), self.rnd.randint(0, WORDS - 40)
        call = self.call("add_tasks", [x, y])
        first = self.rnd.randint(0, 3)
        self.point(call)
        self.emit(isa.RUN, call, first, first + self.rnd.randint(0, 5), 0)

    def point(self, call: int) -> None:
        """Let an operand move with an open loop."""
        if not self.registers or self.rnd.random() < 0.4:
            return
        at, source = self.rnd.randint(0, 1), self.slot(self.rnd.randint(0, WORDS - 40))
        number = len(self.program.pointers)
        self.program.pointers.append(
            (call, at, source, 8 * self.rnd.choice([0, 1, 2, 5]), 8 * self.rnd.choice([0, 3]))
        )
        count = 1
        if self.rnd.random() < 0.5:  # and one of a slot, which a copy reads
            slot, target = self.slot(0), self.slot(self.rnd.randint(0, WORDS - 40))
            self.program.pointers.append((-1, slot, source, 8, 0))
            count = 2
        self.emit(isa.POINT, number, number + count, self.rnd.randrange(self.registers))
        if count == 2:
            self.emit(isa.COPY, target, slot, 8 * self.rnd.randint(0, 3), self.rnd.randint(0, 1))

    def fill(self) -> None:
        slot = self.slot(self.rnd.randint(0, WORDS - 1))
        self.emit(isa.FILL, slot, self.rnd.choice([1, 8]), self.rnd.choice([0, 1, 8]))

    def copy(self) -> None:
        target, source = self.rnd.sample(range(0, WORDS - 8, 8), 2)
        self.emit(isa.COPY, self.slot(target), self.slot(source), self.rnd.randint(0, 64), 1)

    def store(self) -> None:
        slot = self.slot(self.rnd.randint(0, WORDS - 1))
        self.emit(
            isa.STORE, slot, self.rnd.randrange(self.registers), self.rnd.choice([0, 1, -3, 9])
        )

    def nothing(self) -> None:
        self.emit(*self.rnd.choice([(isa.BARRIER,), (isa.WAIT, 0, 0)]))

    def branch(self, depth: int) -> None:
        size = self.rnd.choice([1, 8])
        self.emit(isa.LOOK, self.registers, self.slot(self.rnd.randint(0, WORDS - 1)), size)
        begin = self.emit(isa.BRANCH, self.registers)
        self.parts(self.rnd.randint(1, 2), depth + 1)
        over = self.emit(isa.JUMP)
        self.aim(begin, 2)
        self.parts(self.rnd.randint(0, 2), depth + 1)
        self.aim(over, 1)

    def loop(self, depth: int) -> None:
        register, more = self.registers, self.rnd.choice([0, 0, 1])
        self.registers += 1
        self.emit(isa.LET, register)
        limit = self.slot(WORDS + self.rnd.randrange(LIMITS))
        top = self.emit(isa.LOOP, register, limit, 0, more)
        self.parts(self.rnd.randint(1, 3), depth + 1)
        self.emit(isa.NEXT, register, more)
        self.emit(isa.JUMP, top)
        self.aim(top, 3)
        self.registers -= 1
