"""C functions of sizes that are parameters: their checks, and everything that depends on them."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.portable.c_layout import CLayout
from explorer.portable.c_text import expression
from explorer.portable.portable_program import PortableTensor
from explorer.runtime.workers.aligned_memory import ALIGNMENT


def size_functions(c: CLayout) -> str:
    """Return the functions that check sizes and compute everything that depends on them."""
    if not c.symbolic:
        return ""
    p, prefix, table = c.program, c.prefix, c.formulas
    dims = table.declarations
    first = 1 + sum(len(x.faults) for x in p.launches)
    checks = []
    for n, bound in enumerate(p.symbols.bounds):
        name = table.parameters[bound.name]
        high = "" if bound.high is None else f" || {name} > {bound.high}"
        checks.append(f"    if ({name} < {bound.low}{high})\n        return {first + n};\n")
    after = first + len(p.symbols.bounds)
    for n, (_, a, b) in enumerate(p.symbols.equal):
        left, right = expression(a, table.parameters), expression(b, table.parameters)
        checks.append(f"    if ({left} != {right})\n        return {after + n};\n")
    shapes = _shape_function(c, "input", p.inputs), _shape_function(c, "output", p.outputs)
    arena, scratch = c.number(p.arena_bytes), c.unit_scratch
    unused = "".join(f"    (void){name};\n" for name in table.parameters.values())
    # all formulas are in the table by now: this is the last text that adds some
    count = max(1, len(table.entries))
    return f"""#define FORMULAS {count}

static void evaluate(int64_t *e{dims})
{{
    (void)e, (void)floor_div, (void)greatest, (void)least;
{unused}{table.assignments()}}}

static int fault_of_sizes({dims[2:]})
{{
{"".join(checks)}    return 0;
}}

size_t {prefix}_arena_bytes({dims[2:]})
{{
    int64_t e[FORMULAS];
    if (fault_of_sizes({table.arguments[2:]}))
        return 0;
    evaluate(e{table.arguments});
    return {c.tables_bytes + ALIGNMENT} + (size_t){arena} + (size_t){scratch};
}}
{shapes[0]}{shapes[1]}"""


def _shape_function(c: CLayout, kind: str, tensors: Sequence[PortableTensor]) -> str:
    """Return the function of the shapes of the inputs or outputs."""
    cases = "".join(
        f"    case {n}:\n"
        + "".join(f"        shape[{d}] = {c.number(x)};\n" for d, x in enumerate(t.shape))
        + "        break;\n"
        for n, t in enumerate(tensors)
    )
    name = f"{c.prefix}_{kind}"
    return f"""
size_t {name}_shape(int n, int64_t *shape{c.formulas.declarations})
{{
    int64_t e[FORMULAS];
    size_t bytes;
    if (fault_of_sizes({c.formulas.arguments[2:]}))
        return 0;
    evaluate(e{c.formulas.arguments});
    switch (n) {{
{cases}    default:
        return 0;
    }}
    bytes = {name}s[n].item_bytes;
    for (int d = 0; d < {name}s[n].rank; d++)
        bytes *= (size_t)shape[d];
    return bytes;
}}
"""
