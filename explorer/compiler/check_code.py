"""Check of generated code: its tile programs, interpreted, compute the program's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.ir.calls import KernelCall, efficient_binding
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.dtypes import is_float, numpy_dtype
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding, Program
from explorer.ops.interpreter.evaluate import Interpreter as Evaluator
from explorer.ops.interpreter.evaluate import bind_sizes
from explorer.ops.interpreter.frame import CallFrame
from explorer.passes.validate import Trial, Validation, compare, describe
from explorer.tile.interpret import Interpreter

Codes = Mapping[str, KernelCode]
UNWRITTEN = 77  # of an output of integers; chosen


def check_code(program: Program, codes: Codes) -> None | bool | str:
    """Interpret the tile programs of all kernels on random inputs, and compare the outputs.

    A program with second tilings is run with these too. Addresses are checked, and outputs start
    as NaN. Returns True, a sentence on what is wrong, an `Unchecked` if the reference of a user's
    operator fails, or None if the model cannot be run.
    """
    validation = Validation(program)
    trials = validation.trials
    second = {name: codes.get(efficient_binding(name), code) for name, code in codes.items()}
    tilings = (codes,) if second == codes else (codes, second)
    verdicts = [_verdict(trial, program, each) for trial in trials for each in tilings]
    faults = [v for v in verdicts if isinstance(v, str)]
    return faults[0] if faults else (True if True in verdicts else validation.unchecked)


def _verdict(trial: Trial, program: Program, codes: Codes) -> None | bool | str:
    try:
        tiles = _TileEvaluator(program, bind_sizes(program, trial.inputs), codes)
        return compare(trial, trial.values(program), tiles.outputs(trial.inputs), program)
    except Exception as problem:  # interpreting a wrong program may raise anything
        return describe(problem)


class _TileEvaluator(Evaluator):
    """An evaluator of programs that runs kernels by their tile programs."""

    def __init__(self, program: Program, sizes: Sizes, codes: Codes) -> None:
        """Take the code of kernels by binding."""
        super().__init__(program, sizes)
        self.codes = codes

    def binding(
        self, binding: Binding, values: Mapping[str, np.ndarray], frame: CallFrame
    ) -> Sequence[np.ndarray]:
        """Evaluate a binding, a kernel with code by its tile program."""
        call, code = binding.expr, self.codes.get(binding.name)
        if code is None or not isinstance(call, KernelCall):
            return super().binding(binding, values, frame)
        return _run(call.kernel, code, [self.value(v, values) for v in call.args], frame.sizes)


def _run(
    kernel: Kernel, code: KernelCode, arrays: Sequence[np.ndarray], sizes: Sizes
) -> list[np.ndarray]:
    """Return the outputs of a kernel's tile program; an output may begin as an updated input."""
    inputs = dict(zip(kernel.inputs, arrays, strict=True))
    outputs = {name: _unwritten(kernel, name, inputs, sizes) for name in kernel.outputs}
    tensors, buffers = inputs | outputs, dict[str, np.ndarray]()
    for a in code.arguments:
        if a.packing is not None:
            buffers[a.packing.source] = tensors[a.name]
        elif a.kind == "tensor":
            buffers[a.local] = np.ravel(tensors[a.name])[evaluate_dim(a.offset, sizes) :]
    with np.errstate(all="ignore"):
        Interpreter(code.tile_program, buffers, sizes).run()
    return list(outputs.values())


def _unwritten(
    kernel: Kernel, output: str, inputs: Mapping[str, np.ndarray], sizes: Sizes
) -> np.ndarray:
    updated, dtype = kernel.updated(output), kernel.spec(output).dtype
    if updated is not None:
        return np.array(inputs[updated], order="C")
    value = np.nan if is_float(dtype) else UNWRITTEN
    return np.full(evaluate_shape(kernel.shape(output), sizes), value, numpy_dtype(dtype))
