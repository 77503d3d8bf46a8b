"""The code generator: the kernels, and the source of one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import about, no_such, shortened
from explorer.cli.text import table

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def code(c: Compilation, op: str | None) -> Answer:
    """The kernels; for one operator the source of each."""
    found = [k for k in c.kernels if about(op, k.name, k.origins)]
    if op is not None and not found:
        raise no_such(c, op, (k.name for k in c.kernels))
    uses = Counter(k.code.key for k in c.kernels)
    data = {
        "stage": "emitted",
        "kernels": [
            {"kernel": k.name, "key": k.code.key, "origins": k.origins, "source": k.source}
            for k in found
        ],
    }
    if op is not None:
        return Answer(data, "\n\n".join(f"# {k.name}\n{k.source}" for k in found))
    rows = [
        (k.name, k.code.key[:12], str(uses[k.code.key]), f"{len(k.source.splitlines()):,}")
        for k in found
    ]
    head = ("kernel", "code", ">calls of it", ">lines of source")
    return Answer(data, table(head, shortened(rows, op, 4)))
