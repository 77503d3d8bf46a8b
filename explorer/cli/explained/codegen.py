"""The code generator: the kernels, and the source of one; of a GPU, the thread blocks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.called import PROGRAM, labels
from explorer.cli.explained.find import about, no_such, shortened
from explorer.plain_text import table
from explorer.roller.blocks.thread_block import PREDICTED

if TYPE_CHECKING:
    from explorer.codegen.cuda.block_kernel import BlockKernel
    from explorer.codegen.listing import Listings
    from explorer.compilation import Compilation


def code(c: Compilation, op: str | None) -> Answer:
    """The kernels; for one operator the source of each."""
    if c.blocks:
        return _blocks(c, op)
    found = [k for k in c.kernels if about(op, k.name, k.origins)]
    if op is not None and not found:
        raise no_such(c, op, (k.name for k in c.kernels))
    uses = Counter(k.code.key for k in c.kernels)
    data = {
        "stage": "emitted",
        "kernels": [
            {
                "kernel": k.name,
                "key": k.code.key,
                "origins": k.origins,
                "source": k.source,
                **({} if op is None else _listed(k.listings)),
            }
            for k in found
        ],
    }
    if op is not None:
        return Answer(data, "\n\n".join(f"# {k.name}\n{k.source}" for k in found))
    called = labels(c)
    rows = [
        (
            called[k.name],
            k.name,
            k.code.key[:12],
            str(uses[k.code.key]),
            f"{len(k.source.splitlines()):,}",
        )
        for k in found
    ]
    head = ("kernel", PROGRAM, "code", ">calls of it", ">lines of source")
    return Answer(data, table(head, shortened(rows, op, 5)))


def _blocks(c: Compilation, op: str | None) -> Answer:
    """The thread blocks, with what an assembler predicts of each; for one operator the sources."""
    found = [k for k in c.blocks if about(op, k.name, k.origins)]
    if op is not None and not found:
        raise no_such(c, op, (k.name for k in c.blocks))
    data = {
        "stage": "emitted",
        "predicted_for": c.device.name,
        "kernels": [
            {
                "kernel": k.name,
                "origins": k.origins,
                "source": k.source,
                **({} if op is None else _listed(k.listings)),
                **_told(k),
            }
            for k in found
        ],
    }
    said = f"{PREDICTED.format(c.device.name)}\n"
    if op is not None:
        texts = (f"# {k.name}\n# {k.figures}\n{k.source}" for k in found)
        return Answer(data, "\n\n".join((said, *texts)))
    head = ("kernel", ">blocks", ">threads", ">registers", ">shared", ">spilled", ">occupancy")
    refused = [f"  {k.name}: {k.refused}" for k in found if k.code is None]
    why = next((k.unassembled for k in found if k.code is not None and k.unassembled), "")
    shown = table(head, shortened([_row(k) for k in found], op, len(head)))
    return Answer(data, "\n".join((said, shown, *refused, *([f"  {why}"] if why else []))))


def _listed(found: Listings) -> dict[str, object]:
    """LLVM IR and assembly; `lines` has for each line that of the source that it comes from, 0 for
    none, and is empty where that is not known.
    """
    texts = {"llvm": found.llvm, "assembly": found.assembly}
    parts = {name: {"text": t.text, "lines": t.lines} for name, t in texts.items()}
    return {**parts, "note": found.note}


def _told(k: BlockKernel) -> dict[str, object]:
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
    told = _told(k)
    share = told.get("occupancy")
    return (
        k.name,
        *(
            f"{told[name]:,}" if name in told else "-"
            for name in ("blocks", "threads", "registers", "shared_bytes", "spilled_bytes")
        ),
        f"{share:.0%}" if isinstance(share, float) else "-",
    )
