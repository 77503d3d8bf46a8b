"""Layout of the memory of an exported program's run, and how its numbers and places read in C.

tables (formulas, then argument blocks, slots, registers and stack of each unit) | arena | scratch
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.cached_property import cached_property
from explorer.portable.c_text import FormulaTable, comment
from explorer.portable.portable_program import Place, PortableProgram
from explorer.runtime.workers.aligned_memory import ALIGNMENT

FIRST_INPUT_BASE = 4  # after the number 0, the weights, the arena and the scratch
BASES = {"n": 0, "w": 1, "a": 2, "s": 3}
BY_FORMULA = 1 << 15  # of a base: the offset is the number of an entry of `e`


@dataclass(frozen=True)
class CLayout:
    """The names and numbers in the C of a portable program, and the layout of a run's memory.

    `prefix` begins the names of all functions and macros, and names the files.
    """

    program: PortableProgram
    prefix: str

    @property
    def upper(self) -> str:
        """The prefix of macros."""
        return self.prefix.upper()

    @property
    def parallel(self) -> bool:
        """True if workers run the program."""
        return self.program.units > 1

    @property
    def symbolic(self) -> bool:
        """True if the sizes are parameters."""
        return bool(self.program.symbols.bounds)

    @cached_property
    def formulas(self) -> FormulaTable:
        """Return the numbers that depend on sizes; printing the source fills it."""
        return FormulaTable(self.program)

    @cached_property
    def launch_words(self) -> int:
        """The words of a unit's slots, registers and stack, of the largest launch."""
        launches = self.program.launches
        return max((len(x.slots) + x.registers + x.stack for x in launches), default=0)

    @property
    def table_words(self) -> int:
        """The words of a unit's tables, complete cache lines."""
        words = len(self.program.arguments) + self.launch_words
        return -(-8 * words // ALIGNMENT) * ALIGNMENT // 8

    @property
    def unit_scratch(self) -> str:
        """The bytes of a unit's scratch in C."""
        return f"({self.number(self.program.scratch_bytes)} + {2 * ALIGNMENT})"

    def number(self, number: int) -> str:
        """Return a number in C."""
        return self.formulas.text(number)

    @property
    def head_line(self) -> str:
        """The model, its device and its sizes."""
        p = self.program
        sizes = "" if self.symbolic else "".join(f" {comment(n)} = {v}." for n, v in p.sizes)
        return f"{comment(p.name)}, compiled for {comment(p.device)}.{sizes}"

    @property
    def run_declaration(self) -> str:
        """The declaration of the run function, without a semicolon."""
        workers = f", {self.prefix}_workers *workers" if self.parallel else ""
        arguments = "const void *const *inputs, void *const *outputs, void *arena"
        return f"int {self.prefix}_run({arguments}{workers}{self.formulas.declarations})"

    @property
    def arena_bytes(self) -> int:
        """The bytes of memory that a run needs: tables, intermediates and scratch."""
        p = self.program
        scratch = p.units * (p.scratch_bytes + 2 * ALIGNMENT)
        return self.tables_bytes + int(p.arena_bytes) + scratch + ALIGNMENT

    @property
    def tables_bytes(self) -> int:
        """The bytes of all tables, at the beginning of a run's memory."""
        formulas = -(-len(self.formulas.entries) // 8) * 8
        return 8 * (formulas + self.program.units * self.table_words)

    @cached_property
    def faults(self) -> list[str]:
        """Return the sentence of every fault, from 1: depths of calls, then sizes."""
        p = self.program
        deep = [sentence for x in p.launches for sentence in x.faults]
        sizes = [
            f"{b.name} is {b.low} or more" + ("" if b.high is None else f", at most {b.high}")
            for b in p.symbols.bounds
        ]
        equal = [sentence for sentence, _, _ in p.symbols.equal]
        return deep + sizes + equal

    def address(self, place: Place) -> str:
        """Return the address of a place as an expression of C."""
        return f"bases[{self.base(place)}] + {self.number(place[2])}"

    def base(self, place: Place) -> int:
        """Return the number of a place's base."""
        space, number, _ = place
        if space in BASES:
            return BASES[space]
        return FIRST_INPUT_BASE + number + (len(self.program.inputs) if space == "o" else 0)
