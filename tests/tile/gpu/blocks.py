"""Thread blocks of tests: a small GPU, whose blocks the interpreter is quick with, and what its
rewrites make of the kernels of the code generator's tests.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import TileProgram
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.roller.blocks.thread_block import block_of, thread_block_steps
from explorer.roller.construct.construct import construct
from explorer.tile.interpret import Interpreter
from tests.codegen.cases import CASES, ENV, Case, arrays

V100 = device("v100")
SMALL = replace(V100, lanes=4, schedulers=2, block_threads=16, units=4, transaction_bytes=8)


def case(begins: str) -> Case:
    """The first case whose name begins so."""
    return next(c for c in CASES if c.name.startswith(begins))


def made(c: Case, gpu: object = SMALL) -> dict[str, TileProgram]:
    """The program of a case after each rewrite."""
    return dict(thread_block_steps(normalise(c.kernel), gpu, ENV, c.sizes))  # type: ignore[arg-type]


def first_block(k: Kernel, gpu: Device) -> Tiling:
    """Of the first result of Roller's construction, whether there is room for it or not."""
    roller = construct(k, gpu)
    return block_of(k, roller.fused, roller.results[0])


def reference(c: Case, seed: int = 0) -> np.ndarray:
    """What the kernel is."""
    values = arrays(c, seed)
    return evaluate_kernel(c.kernel, [values[n] for n in c.kernel.inputs], c.sizes)


def result(c: Case, program: TileProgram, seed: int = 0) -> np.ndarray:
    """What a program makes of the same, its threads in an order of that seed."""
    want = reference(c, seed)
    out = np.full(want.shape, np.nan if want.dtype.kind == "f" else 77, want.dtype)
    given = arrays(c, seed) | {c.kernel.output: out}
    with np.errstate(invalid="ignore"):  # what lies past an edge is poison, and is not stored
        Interpreter(program, given, {}, seed).run()
    return out


def is_right(c: Case, program: TileProgram, seed: int = 0) -> bool:
    """Whether a program makes what the kernel is."""
    want, found = reference(c, seed).astype(float), result(c, program, seed).astype(float)
    scale = max(1.0, float(np.abs(np.nan_to_num(want)).max(initial=0)))
    return bool(np.allclose(found, want, rtol=1e-5, atol=c.tolerance * scale, equal_nan=True))
