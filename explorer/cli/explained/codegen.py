"""Report on the code generator: the kernels and their sources; of a GPU, the thread blocks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import is_about, shorten_rows, unknown_name
from explorer.cli.explained.labels import PROGRAM, labels
from explorer.plain_text import table
from explorer.roller.blocks.thread_block import PREDICTED

if TYPE_CHECKING:
    from explorer.codegen.cuda.block_kernel import BlockKernel
    from explorer.codegen.listing import Listings
    from explorer.compilation import Compilation


def code(c: Compilation, op: str | None) -> Answer:
    """Return the kernels; for one operator the source of each."""
    if c.blocks:
        return _blocks(c, op)
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
    prediction = f"{PREDICTED.format(c.device.name)}\n"
    if op is not None:
        texts = (f"# {k.name}\n# {k.figures}\n{k.source}" for k in kernels)
        return Answer(data, "\n\n".join((prediction, *texts)))
    head = ("kernel", ">blocks", ">threads", ">registers", ">shared", ">spilled", ">occupancy")
    refused = [f"  {k.name}: {k.refused}" for k in kernels if k.code is None]
    why = next((k.unassembled for k in kernels if k.code is not None and k.unassembled), "")
    shown = table(head, shorten_rows([_row(k) for k in kernels], op, len(head)))
    return Answer(data, "\n".join((prediction, shown, *refused, *([f"  {why}"] if why else []))))


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
