"""A portable program as C: its call list with loops and branches.

One function runs the program on one thread. With several units there are persistent workers
(`c_workers`); with symbols the sizes are parameters, and tables are computed from them first.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.types import numpy_dtype
from explorer.portable.c_header import header
from explorer.portable.c_layout import BY_FORMULA, FIRST_INPUT_BASE, CLayout
from explorer.portable.c_project import cmake_lists, main_program, weights_assembler
from explorer.portable.c_rows import UnitScope, statements
from explorer.portable.c_sizes import size_functions
from explorer.portable.c_text import HELPERS, comment, prefix_of, string
from explorer.portable.c_workers import run_units, workers_source
from explorer.portable.portable_program import (
    Formula,
    Place,
    PortableLaunch,
    PortableProgram,
    PortableTensor,
)

ON_A_LINE = 12  # numbers of a table in a line of C; chosen

FILL = """static void fill(int64_t *words, const place *places, int count, const int64_t *bases)
{
    for (int n = 0; n < count; n++)
        words[n] = bases[places[n].base] + places[n].offset;
}
"""
FILL_FORMULAS = f"""static void fill(int64_t *words, const place *places, int count,
                 const int64_t *bases, const int64_t *e)
{{
    for (int n = 0; n < count; n++) {{
        const place p = places[n];
        words[n] = bases[p.base & {BY_FORMULA - 1}] +
                   (p.base & {BY_FORMULA} ? e[p.offset] : p.offset);
    }}
}}
"""


class CProgram(CLayout):
    """The C sources of a portable program, by file name."""

    @staticmethod
    def of(program: PortableProgram) -> CProgram:
        """Return the sources, with a prefix from the program's name."""
        return CProgram(program, prefix_of(program.name))

    def files(self) -> dict[str, str]:
        """Return every text file by its name."""
        source = self.source()
        return {
            f"{self.prefix}.h": header(self),
            f"{self.prefix}.c": source,
            "weights.S": weights_assembler(self.prefix, comment(self.program.name)),
            "main.c": main_program(self.prefix, self.program),
            "CMakeLists.txt": cmake_lists(self.prefix, self.parallel),
        }

    def source(self) -> str:
        """Return the call list of every launch, and the function that runs them."""
        p, prefix = self.program, self.prefix
        kernels = "\n".join(
            f"void {k.name}(int64_t first, int64_t last, int64_t args);" for k in p.kernels
        )
        launches = "\n".join(self.launch(n, x) for n, x in enumerate(p.launches))
        places = _places("argument_places", p.arguments, self)
        tensors = self.tensors("inputs", p.inputs), self.tensors("outputs", p.outputs)
        for _ in range(2):  # the first fills the table of formulas, whose size is in the second
            body, sizes = self.run(), size_functions(self)
        posix = "#define _POSIX_C_SOURCE 200809L\n" if self.parallel else ""
        threads = workers_source(prefix, p.units) if self.parallel else ""
        system = "#include <pthread.h>\n#include <sched.h>\n#include <stdatomic.h>\n"
        return f"""/* {self.head_line}
   Its kernel calls in order. Written by Ironworks. */
{posix}#include "{prefix}.h"

{system if self.parallel else ""}#include <string.h>

{kernels}

extern const unsigned char {prefix}_weights[];

typedef struct {{
    uint16_t base;
    int64_t offset;
}} place;

{HELPERS if self.symbolic else ""}{threads}
{tensors[0]}
{tensors[1]}
{places}
{sizes}
{launches}
const char *{prefix}_fault(int fault)
{{
    static const char *const sentences[] = {{
    {self.sentences()}}};
    return sentences[fault >= 0 && fault < {1 + len(self.faults)} ? fault : 0];
}}

{body}"""

    def sentences(self) -> str:
        """Return the sentences as string literals."""
        return ",\n    ".join(map(string, ["no fault", *self.faults]))

    def run(self) -> str:
        """Return the function that fills the tables and runs the launches."""
        p, upper = self.program, self.upper
        bases = FIRST_INPUT_BASE + len(p.inputs) + len(p.outputs)
        formulas = self.tables_bytes // 8 - p.units * self.table_words
        evaluated = (
            f"    fault = fault_of_sizes({self.formulas.arguments[2:]});\n"
            "    if (fault)\n        return fault;\n"
            f"    evaluate(e{self.formulas.arguments});\n"
            if self.symbolic
            else ""
        )
        copies = "".join(
            f"    memcpy(outputs[{output}], (const void *)({self.address(place)}), "
            f"(size_t){self.number(count)});\n"
            for output, place, count in p.copies
            if count or isinstance(count, Formula)
        )
        words = "".join(
            f"    *(int64_t *)(bases[2] + {at}) = {self.number(Formula(0, dim))};\n"
            if not isinstance(dim, int)
            else f"    *(int64_t *)(bases[2] + {at}) = {dim};\n"
            for at, dim in p.symbols.words
        )
        e = "    int64_t *const e = arena;\n" if self.symbolic else ""
        fill = FILL_FORMULAS if self.symbolic else FILL
        set_bases = f"""    bases[1] = (intptr_t){self.prefix}_weights;
    bases[2] = (intptr_t)arena + TABLE_BYTES;
    bases[3] = bases[2] + {self.number(p.arena_bytes)};
    for (int n = 0; n < {upper}_INPUTS; n++)
        bases[{FIRST_INPUT_BASE} + n] = (intptr_t)inputs[n];
    for (int n = 0; n < {upper}_OUTPUTS; n++)
        bases[{FIRST_INPUT_BASE + len(p.inputs)} + n] = (intptr_t)outputs[n];
"""
        defines = f"#define TABLE_BYTES {self.tables_bytes}\n"
        if self.parallel:
            counted = len(p.arguments), self.table_words, self.unit_scratch
            units = run_units(self.prefix, p, bases, set_bases, copies, *counted)
            return f"{defines}\n{fill}\n{units}"
        runs = "".join(self.run_launch(n, x) for n, x in enumerate(p.launches))
        passed = ", e" if self.symbolic else ""
        return f"""{defines}
{fill}
{self.run_declaration}
{{
    int64_t bases[{bases}] = {{0}};
{e}    int64_t *const args = (int64_t *)arena + {formulas};
    int64_t *const slot = args + {len(p.arguments)};
    int fault = 0;
    (void)inputs, (void)outputs, (void)slot;
{evaluated}{set_bases}{words}    fill(args, argument_places, {len(p.arguments)}, bases{passed});
{runs}{copies}    return fault;
}}
"""

    def run_launch(self, number: int, launch: PortableLaunch) -> str:
        """Return the statements that run a launch on one thread."""
        slots, registers = len(launch.slots), launch.registers
        e = ", e" if self.symbolic else ""
        return (
            f"    fill(slot, slot_places_{number}, {slots}, bases{e});\n"
            f"    memset(slot + {slots}, 0, {8 * (registers + launch.stack)});\n"
            f"    fault = launch_{number}_0(args, slot, slot + {slots}, "
            f"slot + {slots + registers}{e});\n"
            "    if (fault)\n        return fault;\n"
        )

    def launch(self, number: int, launch: PortableLaunch) -> str:
        """Return the functions of one launch, one for each unit."""
        names = [kernel.name for kernel in self.program.kernels]
        faults = sum(len(x.faults) for x in self.program.launches[:number])
        functions = []
        for place in range(len(launch.units)):
            scope = UnitScope(launch, names, faults, self.number, place, self.parallel)
            body = "\n".join(statements(scope))
            more, begin, end = "", "    int fault = 0;\n", "\n    return fault;"
            if self.symbolic:
                more = ", const int64_t *e"
            if self.parallel:
                more, end = f", {self.prefix}_workers *w, part *own", ""
                begin = "    int64_t epoch = own->epoch;\n    (void)w, (void)epoch;\n"
            unused = "    (void)args, (void)slot, (void)r, (void)stack;\n"
            unused += "    (void)e;\n" if self.symbolic else ""
            functions.append(
                f"static int launch_{number}_{place}(int64_t *args, int64_t *slot, int64_t *r, "
                f"int64_t *stack{more})\n{{\n{begin}{unused}{body}{end}\n}}\n"
            )
        return _places(f"slot_places_{number}", launch.slots, self) + "\n" + "\n".join(functions)

    def tensors(self, kind: str, tensors: Sequence[PortableTensor]) -> str:
        """Return the table of the inputs or outputs."""
        name = f"{self.prefix}_{kind}"
        fixed = [tuple(-1 if isinstance(n, Formula) else n for n in t.shape) for t in tensors]
        shapes = "".join(
            f"static const int64_t {kind}_{n}_shape[] = {{{', '.join(map(str, shape)) or 0}}};\n"
            for n, shape in enumerate(fixed)
        )
        rows = "".join(
            f"    {{{string(t.name)}, {string(t.dtype)}, {0 if -1 in fixed[n] else t.bytes}, "
            f"{numpy_dtype(t.dtype).itemsize}, {len(t.shape)}, {kind}_{n}_shape}},\n"
            for n, t in enumerate(tensors)
        )
        empty = "    {0, 0, 0, 0, 0, 0},\n" if not tensors else ""
        return f"{shapes}const {self.prefix}_tensor {name}[] = {{\n{rows}{empty}}};\n"


def _places(name: str, places: Sequence[Place], c: CProgram) -> str:
    """Return a table of places."""
    cells = []
    for place in places:
        base, offset = c.base(place), place[2]
        if isinstance(offset, Formula):
            base, offset = base | BY_FORMULA, c.formulas.index(offset)
        cells.append(f"{{{base}, {offset}}}")
    cells = cells or ["{0, 0}"]
    lines = (", ".join(cells[n : n + ON_A_LINE]) for n in range(0, len(cells), ON_A_LINE))
    return f"static const place {name}[] = {{\n    " + ",\n    ".join(lines) + "};\n"
