"""Comparison of programs for WebGPU with the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.codegen.wgsl.build import Shader, print_shader
from explorer.devices.model import Device
from explorer.errors import BadOption, CheckFailed
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Chosen
from explorer.ir.dims import Sizes
from explorer.ir.program import Binding, Program
from explorer.ops.interpreter.evaluate import Interpreter
from explorer.ops.interpreter.frame import CallFrame
from tests.targets.wgsl import gpu

RELATIVE = {"float16": 2.0**-8, "bfloat16": 2.0**-5}  # four units in the last place
OTHER_RELATIVE = 1e-4  # what WGSL guarantees of exp alone is 3 + 2 |x| units


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """Return how two arrays differ, else ""; bounds are relative to the largest element."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    relative = RELATIVE.get(str(want.dtype), OTHER_RELATIVE)
    if want.dtype.kind in "iub":
        return "" if np.array_equal(got, want) else f"{np.sum(got != want)} elements differ"
    a, b = got.astype(np.float32), want.astype(np.float32)
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0))
    near = np.isclose(a, b, rtol=relative, atol=relative / 10 * largest, equal_nan=True)
    if near.all():
        return ""
    at = np.unravel_index(int(np.argmin(near)), near.shape)
    return f"{np.sum(~near)} of {near.size} elements differ; at {at} {a[at]}, not {b[at]}"


def differences(got: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs that differ, and how."""
    assert [*got] == [*want]
    every = {n: difference(np.asarray(got[n]), np.asarray(want[n])) for n in want}
    return {name: why for name, why in every.items() if why}


class OnGpu(Interpreter):
    """An interpreter that runs every kernel call also as a shader, and compares.

    `wrong` are the calls that differ, `refused` those without a shader; `shaders` are all others.
    """

    def __init__(
        self, program: Program, sizes: Sizes, device: Device, chosen: Chosen, seed: int | None = 1
    ) -> None:
        super().__init__(program, sizes)
        self.device, self.chosen, self.seed = device, chosen, seed
        self.shaders: list[Shader] = []
        self.wrong: dict[str, str] = {}
        self.refused: dict[str, str] = {}

    def binding(
        self, binding: Binding, values: Mapping[str, np.ndarray], frame: CallFrame
    ) -> Sequence[np.ndarray]:
        """Return the values that the reference interpreter binds."""
        want = super().binding(binding, values, frame)
        if not isinstance(binding.expr, KernelCall):
            return want
        kernel, block = binding.expr.kernel, self.chosen.get(binding.name, (None,))[0]
        try:
            shader = print_shader(kernel, self.device, self.program.env, frame.sizes, block)
        except (BadOption, CheckFailed) as problem:
            self.refused[binding.name] = problem.sentence
            return want
        args = [self.value(a, values) for a in binding.expr.args]
        self.shaders.append(shader)
        got = gpu.launch(shader, kernel, args, frame.sizes, self.seed)
        whys = [difference(np.asarray(a), np.asarray(b)) for a, b in zip(got, want, strict=True)]
        if any(whys):
            self.wrong[binding.name] = ", ".join(filter(None, whys))
        return want
