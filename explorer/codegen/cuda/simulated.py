"""A whole program whose kernels run as thread blocks in the GPU simulator.

The reference interpreter evaluates everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.codegen.cuda.simulator import run_block_source
from explorer.devices.model import Device
from explorer.errors import BadOption, CheckFailed
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Chosen
from explorer.ir.dims import Sizes, evaluate_shape
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding, Program
from explorer.ops.interpreter.evaluate import Interpreter, bind_sizes
from explorer.ops.interpreter.frame import CallFrame

Array = np.ndarray
UNWRITTEN = 77  # initial value of integer outputs


class Simulated(Interpreter):
    """An interpreter that runs kernel calls as thread blocks.

    `refused` are the calls without a thread block, with the reason: the reference interpreter runs
    these. `chosen` are the blocks of calls by name under these sizes; other calls use Roller's
    first. `seed` is of the order of threads.
    """

    def __init__(
        self,
        program: Program,
        sizes: Sizes,
        device: Device,
        seed: int = 0,
        chosen: Chosen = MappingProxyType({}),
    ) -> None:
        """Create an interpreter of a program under sizes, for a device."""
        super().__init__(program, sizes)
        self.device, self.seed, self.chosen = device, seed, chosen
        self.launches = 0
        self.refused: dict[str, str] = {}

    def binding(
        self, binding: Binding, values: Mapping[str, Array], frame: CallFrame
    ) -> Sequence[Array]:
        """Return the values that a binding binds."""
        if not isinstance(binding.expr, KernelCall):
            return super().binding(binding, values, frame)
        kernel = binding.expr.kernel
        try:
            block = self.chosen.get(binding.name, (None,))[0]
            code = print_block(kernel, self.device, self.program.env, frame.sizes, block)
        except (BadOption, CheckFailed) as problem:
            self.refused[binding.name] = problem.sentence
            return super().binding(binding, values, frame)
        args = [self.value(a, values) for a in binding.expr.args]
        self.launches += 1
        return launch(code, kernel, args, frame.sizes, self.seed + self.launches)


def simulate(
    program: Program,
    inputs: Mapping[str, Array],
    device: Device,
    seed: int = 0,
    chosen: Callable[[Sizes], Chosen] = lambda sizes: {},
) -> tuple[dict[str, Array], Simulated]:
    """Return the outputs of a program by name, and the interpreter that ran it.

    `chosen` returns the block of each call under the sizes of the inputs. Raises CheckFailed if a
    thread leaves an array, and the errors of `bind_sizes`.
    """
    main = program.main
    sizes = bind_sizes(program, inputs)
    run = Simulated(program, sizes, device, seed, chosen(sizes))
    outputs = run.run(main, [inputs[p.name] for p in main.params])
    names = main.output_names or tuple(v.name for v in main.outputs)
    return dict(zip(names, outputs, strict=True)), run


def launch(
    code: BlockCode, kernel: Kernel, args: Sequence[Array], sizes: Sizes, seed: int = 0
) -> tuple[Array, ...]:
    """Run all blocks of a kernel on its inputs; return new arrays.

    An output that updates an input works on a copy of it: one memory under two names, as on a GPU.
    """
    arrays = dict(zip(kernel.inputs, args, strict=True))
    for name in kernel.outputs:
        updated = kernel.updated(name)
        shape = evaluate_shape(kernel.shape(name), sizes)
        dtype = numpy_dtype(kernel.dtype(name))
        unwritten = np.nan if dtype.kind == "f" else UNWRITTEN
        buffer = np.full(shape, unwritten).astype(dtype)
        if updated is not None:
            buffer = arrays[updated] = np.array(arrays[updated]).reshape(shape)
        arrays[name] = buffer
    flat = {
        t.local: np.ravel(arrays[t.name]).view(numpy_dtype(t.dtype))[t.offset :]
        for t in code.tensors
    }
    run_block_source(code.source, code.grid, code.threads, code.dynamic_bytes, flat, seed)
    return tuple(arrays[name] for name in kernel.outputs)
