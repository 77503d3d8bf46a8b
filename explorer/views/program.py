"""Programs as text: the bindings, the tile programs of each kernel, and the generated sources."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from explorer.cost.bind_kernel import bind_kernel
from explorer.devices.target import target_of
from explorer.errors import BadOption, BadTarget, CheckFailed
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.text.program_text import binding_lines, print_program, print_type
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_program import TileProgram
from explorer.plain_text import table
from explorer.roller.blocks.thread_block import PREDICTED, in_own_names
from explorer.views.answer import Answer
from explorer.views.labels import PROGRAM, is_about, labels, shorten_rows, unknown_name

if TYPE_CHECKING:
    from explorer.codegen.cuda.block_kernel import BlockKernel
    from explorer.compiler.compilation import Compilation
    from explorer.devices.listing import Listings
    from explorer.devices.model import Device
    from explorer.ir.program import Binding


def program(c: Compilation, op: str | None) -> Answer:
    """Return the text of a program, or of the bindings that come from one operator."""
    bindings = _select_bindings(c, op)
    rows = [
        {
            "values": {v.name: print_type(v.type) for v in b.vars},
            "expr": type(b.expr).__name__,
            "origins": b.origin,
        }
        for b in bindings
    ]
    if op is None:
        text = print_program(c.program, digests=False)
    else:
        text = "\n".join(line for b in bindings for line in binding_lines(b, c.program.constants))
    return Answer({"stage": c.stage, "bindings": rows, "text": text}, text)


def _select_bindings(c: Compilation, op: str | None) -> list[Binding]:
    everything = [b for _, b in c.program.bindings()]
    matches = [b for b in everything if is_about(op, "", b.origin, [v.name for v in b.vars])]
    if op is not None and not matches:
        raise unknown_name(c, op, (v.name for b in everything for v in b.vars))
    return matches


def rewrites(c: Compilation, op: str | None) -> Answer:
    """Return each step by name with its lines; the text marks a step that changes nothing.

    On a GPU these are the steps of its thread blocks, or the reason why a kernel has none.
    """
    calls = [b for b in c.program.kernel_calls if is_about(op, b.name, b.origin)]
    if not calls:
        raise unknown_name(c, op or "", {b.name: b.origin for b in c.program.kernel_calls})
    call_labels, elsewhere = labels(c), not c.target.is_emitted
    data, parts = [], [f"{prediction(c.device)}\n"] if elsewhere else []
    for b in calls:
        parts.append(
            f"{call_labels[b.name]}: {b.name} {PROGRAM}, from {', '.join(sorted(b.origin))}"
        )
        entry: dict[str, object] = {"kernel": b.name}
        try:
            programs = [(n, print_tile_program(p)) for n, p in _steps(c, b.name, b.kernel_call)]
        except (BadOption, BadTarget, CheckFailed) as problem:
            if not elsewhere:
                raise
            entry["refused"] = problem.sentence
            parts.append(f"  {problem}")
            programs = []
        data.append({**entry, "steps": [{"name": n, "lines": x} for n, x in programs]})
        before: tuple[str, ...] = ()
        for name, lines in programs:
            parts.append(f"  {name}: nothing to do" if lines == before else f"  {name}")
            parts += [] if lines == before else [f"    {line}" for line in lines]
            before = lines
    kind = {"predicted_for": c.device.name} if elsewhere else {}
    return Answer({"stage": c.stage, **kind, "kernels": data}, "\n".join(parts))


def _steps(c: Compilation, name: str, call: KernelCall) -> tuple[tuple[str, TileProgram], ...]:
    env = c.program.env
    if c.target.uses_thread_blocks:
        bound = normalise(bind_kernel(call.kernel, env.hints))
        block = c.chosen_blocks().get(name, (None,))[0]
        return c.target.steps(bound, block and in_own_names(block, bound), env, {}, c.device)
    return c.target.steps(call.kernel, call.core_tiling or Tiling(), env, {}, c.device)


def prediction(device: Device) -> str:
    """Return the sentence above code of a device that is not here."""
    if target_of(device).uses_thread_blocks:
        return PREDICTED.format(device.name)
    return f"what would run on a core of {device.name}: a prediction, for it is a data sheet"


def code(c: Compilation, op: str | None) -> Answer:
    """Return the kernels; for one operator the source of each."""
    if c.blocks:
        return _blocks(c, op) if c.takes_cuda else _sources(c, op)
    kernels = [k for k in c.kernels if is_about(op, k.name, k.origins)]
    if op is not None and not kernels:
        raise unknown_name(c, op, (k.name for k in c.kernels))
    uses = Counter(k.code.key for k in c.kernels)
    data = {
        "stage": "emitted",
        "kernels": [
            {
                "kernel": k.name,
                "key": k.code.key,
                "origins": k.origins,
                "source": k.source,
                **({} if op is None else _listing_fields(k.listings)),
            }
            for k in kernels
        ],
    }
    if op is not None:
        return Answer(data, "\n\n".join(f"# {k.name}\n{k.source}" for k in kernels))
    call_labels = labels(c)
    rows = [
        (
            call_labels[k.name],
            k.name,
            k.code.key[:12],
            str(uses[k.code.key]),
            f"{len(k.source.splitlines()):,}",
        )
        for k in kernels
    ]
    head = ("kernel", PROGRAM, "code", ">calls of it", ">lines of source")
    return Answer(data, table(head, shorten_rows(rows, op, 5)))


def _sources(c: Compilation, op: str | None) -> Answer:
    """Return the kernels as a target that is not here prints them."""
    kernels = [k for k in c.blocks if is_about(op, k.name, k.origins)]
    if op is not None and not kernels:
        raise unknown_name(c, op, (k.name for k in c.blocks))
    fields = ("name", "origins", "source", "refused")
    rows = [{name: getattr(k, name) for name in fields} for k in kernels]
    data = {"stage": "emitted", "predicted_for": c.device.name, "kernels": rows}
    text = "\n\n".join(f"# {k}\n{k.source}".rstrip() for k in kernels)
    return Answer(data, f"{prediction(c.device)}\n\n{text}")


def _blocks(c: Compilation, op: str | None) -> Answer:
    """Return the thread blocks with predicted resources; for one operator the sources."""
    kernels = [k for k in c.blocks if is_about(op, k.name, k.origins)]
    if op is not None and not kernels:
        raise unknown_name(c, op, (k.name for k in c.blocks))
    data = {
        "stage": "emitted",
        "predicted_for": c.device.name,
        "kernels": [
            {
                "kernel": k.name,
                "origins": k.origins,
                "source": k.source,
                **({} if op is None else _listing_fields(k.listings)),
                **_block_fields(k),
            }
            for k in kernels
        ],
    }
    above = f"{prediction(c.device)}\n"
    if op is not None:
        texts = (f"# {k.name}\n# {k.figures}\n{k.source}" for k in kernels)
        return Answer(data, "\n\n".join((above, *texts)))
    head = ("kernel", ">blocks", ">threads", ">registers", ">shared", ">spilled", ">occupancy")
    refused = [f"  {k.name}: {k.refused}" for k in kernels if k.code is None]
    why = next((k.unassembled for k in kernels if k.code is not None and k.unassembled), "")
    shown = table(head, shorten_rows([_row(k) for k in kernels], op, len(head)))
    return Answer(data, "\n".join((above, shown, *refused, *([f"  {why}"] if why else []))))


def _listing_fields(listings: Listings) -> dict[str, object]:
    """Return LLVM IR and assembly.

    `lines` gives the source line of each line, 0 for none. It is empty where that is unknown.
    """
    texts = {"llvm": listings.llvm, "assembly": listings.assembly}
    parts = {name: {"text": t.text, "lines": t.lines} for name, t in texts.items()}
    return {**parts, "note": listings.note}


def _block_fields(k: BlockKernel) -> dict[str, object]:
    if k.code is None:
        return {"refused": k.refused}
    launch = {"blocks": k.code.grid, "threads": k.code.threads}
    if k.unassembled:
        return {**launch, "shared_bytes": k.code.shared_bytes, "unassembled": k.unassembled}
    a = k.assembled
    return {
        **launch,
        "registers": a.registers,
        "shared_bytes": a.shared_bytes,
        "spilled_bytes": a.spilled_bytes,
        "occupancy": a.occupancy.share,
        "resident_blocks": a.occupancy.blocks,
        "limited_by": a.occupancy.limited_by,
    }


def _row(k: BlockKernel) -> tuple[str, ...]:
    fields = _block_fields(k)
    share = fields.get("occupancy")
    return (
        k.name,
        *(
            f"{fields[name]:,}" if name in fields else "-"
            for name in ("blocks", "threads", "registers", "shared_bytes", "spilled_bytes")
        ),
        f"{share:.0%}" if isinstance(share, float) else "-",
    )
