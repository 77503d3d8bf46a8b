"""Launches of printed thread blocks, in the stand-in for a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.codegen.cuda.simulated import launch
from explorer.devices.catalogue import device
from explorer.ir.kernel import Kernel
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import ENV, Case, arrays
from tests.tile.gpu.blocks import SMALL as SMALL_GPU

A100 = device("a100")
SMALL = replace(SMALL_GPU, capability=80)


def launched(
    code: BlockCode, kernel: Kernel, values: Mapping[str, np.ndarray], sizes: Any, seed: int = 0
) -> np.ndarray:
    """What a launch makes of a kernel's one output."""
    (found,) = launch(code, kernel, [values[n] for n in kernel.inputs], sizes, seed)
    return found


def is_right(c: Case, code: BlockCode, seed: int = 0) -> bool:
    """Whether a launch makes what the kernel of a case is."""
    values = arrays(c, seed)
    want = evaluate_kernel(c.kernel, [values[n] for n in c.kernel.inputs], c.sizes)
    found = launched(code, c.kernel, values, c.sizes, seed).astype(float)
    scale = max(1.0, float(np.abs(np.nan_to_num(want.astype(float))).max(initial=0)))
    tolerance = {"rtol": 1e-5, "atol": 4 * c.tolerance * scale}
    return bool(np.allclose(found, want.astype(float), **tolerance, equal_nan=True))


def code_of(c: Case, gpu: Any = SMALL) -> BlockCode:
    """The block of a case."""
    return print_block(c.kernel, gpu, ENV, c.sizes)
