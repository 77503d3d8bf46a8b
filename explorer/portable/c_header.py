"""The header of an exported program: its functions, and how a caller uses them."""

from __future__ import annotations

from explorer.portable.c_layout import CLayout
from explorer.portable.c_text import comment
from explorer.portable.c_workers import workers_header
from explorer.runtime.workers.aligned_memory import ALIGNMENT


def header(c: CLayout) -> str:
    """Return the header: the function, the size of its memory, names and sizes of tensors."""
    p, prefix, upper = c.program, c.prefix, c.upper
    if c.symbolic:
        arena = f"{prefix}_arena_bytes({', '.join(c.formulas.parameters.values())})"
    else:
        arena = f"{upper}_ARENA_BYTES"
    workers = workers_header(prefix, p.units) if c.parallel else ""
    once = f"\n   workers: those of {prefix}_start, one run at a time."
    return f"""/* {c.head_line}
   Written by Ironworks. The plan of this program is in plan.json. */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_INPUTS {len(p.inputs)}
#define {upper}_OUTPUTS {len(p.outputs)}
#define {upper}_ALIGNMENT {ALIGNMENT}
{_arena_declaration(c)}
/* An input or output in C order. An extent that depends on sizes is -1, and `bytes` then is 0. */
typedef struct {{
    const char *name;
    const char *dtype;
    size_t bytes;
    size_t item_bytes;
    int rank;
    const int64_t *shape;
}} {prefix}_tensor;

extern const {prefix}_tensor {prefix}_inputs[];
extern const {prefix}_tensor {prefix}_outputs[];
{workers}
/* Run the program once.

   inputs, outputs: the addresses of the tensors above, each a multiple of {upper}_ALIGNMENT bytes;
   outputs do not overlap inputs or one another.
   arena: {arena} bytes, a multiple of {upper}_ALIGNMENT too, and private to this run.{
        once if c.parallel else ""
    }
   Nothing else is written and nothing is allocated, so several threads may run it, each with an
   arena of its own.

   Returns 0, or the number of a fault (see {prefix}_fault). */
{c.run_declaration};

/* Return the sentence of a fault. */
const char *{prefix}_fault(int fault);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _arena_declaration(c: CLayout) -> str:
    """Return the declaration of the bytes that a run needs, and of shapes that depend on sizes."""
    p, prefix, upper = c.program, c.prefix, c.upper
    if not c.symbolic:
        return f"#define {upper}_ARENA_BYTES ((size_t){c.arena_bytes})\n"
    dims = c.formulas.declarations[2:]
    limits = "".join(
        f"   {name}: {comment(b.name)}, {max(0, b.low)} or more"
        f"{'' if b.high is None else f', at most {b.high}'}; planned for {b.hint}\n"
        for b, name in zip(p.symbols.bounds, c.formulas.parameters.values())
    )
    return f"""
/* The sizes that a run takes:

{limits}*/

/* Return the bytes of memory that a run needs, 0 if the sizes are not possible. */
size_t {prefix}_arena_bytes({dims});

/* Write the shape of an input or output, and return its bytes, 0 if the sizes are not possible. */
size_t {prefix}_input_shape(int n, int64_t *shape, {dims});
size_t {prefix}_output_shape(int n, int64_t *shape, {dims});
"""
