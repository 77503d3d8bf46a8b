"""Compilations as the data of a live page, as `widgets/live/live.js` describes it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.codegen.cpu.cross import cross_compile
from explorer.codegen.wasm import link_wasm
from explorer.compiler.compilation import Compilation
from explorer.portable.program import portable
from explorer.tuning.compare import LEAST_ANSWER, TOLERANCE_SHARE, largest
from widgets.live import scripts

Arrays = Mapping[str, np.ndarray]


def bound(array: np.ndarray) -> float:
    """How far an element may lie from the recorded one: the rule of `explorer.tuning.compare`."""
    if array.dtype.kind != "f":
        return 0.0
    return TOLERANCE_SHARE * max(largest(array), LEAST_ANSWER)


class Blobs:
    """Bytes in base64, each stored once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, data: bytes) -> int:
        """The position of some bytes."""
        text = b64encode(data).decode()
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)


def live_data(
    compilations: Mapping[str, Compilation], inputs: Arrays, outputs: Arrays, threads: int = 1
) -> dict[str, Any]:
    """The data of a page with these variants, the first its own; `outputs` are recorded."""
    blobs = Blobs()
    variants, order = [], []
    for name, c in compilations.items():
        program = portable(c, threads=threads)
        module = link_wasm([cross_compile(k.source, program.isa).code for k in program.kernels])
        order = [t.name for t in program.inputs]
        recorded = [
            {
                "bytes": blobs.add(np.ascontiguousarray(outputs[t.name]).tobytes()),
                "tolerance": bound(outputs[t.name]),
            }
            for t in program.outputs
        ]
        variants.append(
            {
                "name": name,
                "program": program.to_dict(),
                "code": blobs.add(module.code),
                "weights": blobs.add(program.weights),
                "stack": module.data_at,
                "reserved": module.data_end,
                "limits": module.limits_at,
                "recorded": recorded,
            }
        )
    given = [blobs.add(np.ascontiguousarray(inputs[name]).tobytes()) for name in order]
    script = scripts.worker_script()
    return {"worker": script, "blobs": blobs.texts, "inputs": given, "variants": variants}
