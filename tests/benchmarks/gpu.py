"""Ironworks on the GPU of this machine, against PyTorch there.

    python -m tests.benchmarks gpu [right] [kernels] [halves] [programs] [--only NAME ...]
        [--sheet h100] [--record FOLDER]

`right`: every model of the zoo as one persistent kernel, against the same model on the CPU.
`kernels`: rows of the kernel table, each kernel a launch of its own, against PyTorch in float32
(TF32 off), by the device's events; the answer is compared first. `halves`: its products in float16,
on tensor cores where the plan has them there. `programs`: one persistent kernel
against PyTorch eager, replayed as a CUDA graph, and compiled, copies of inputs and outputs left out
on all sides; the measured wall beside the planned one. Needs numba-cuda; PyTorch where it is raced.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import explorer
from explorer.codegen.cuda.build import BlockCode
from explorer.codegen.cuda.machine_code import machine_code
from explorer.compiler.on_gpu import OnGpu
from explorer.errors import BadOption, IronworksError
from explorer.frontends.zoo import names
from explorer.runtime.cuda.driver import SimulatedDriver
from explorer.runtime.cuda.gpu import Gpu, StreamCalls
from tests.benchmarks.single_kernels.case import Case, written
from tests.benchmarks.single_kernels.operators import operators

BATCH = 32  # of the rows of the kernel table
TIMES, TURNS = 20, 9  # launches between two events, and pairs of them
PROGRAMS = ("lstm", "lstm_tc", "seq2seq", "nasnet", "resnext29")
KERNELS = (
    *("matmul_bert_projection", "matmul_bert_ffn_up", "matmul_bert_ffn_down"),
    *("matmul_bert_scores", "matmul_bert_context", "conv3x3_64_64_56", "conv3x3_128_128_28"),
    *("conv3x3_512_512_7", "conv1x1_64_256_56", "conv1x1_1024_256_14", "depthwise3x3_144_56"),
    *("softmax_bert_12_128_128", "layer_norm_bert_512_1024", "reduce_mean_512_1024"),
    *("add_256_56", "relu_256_56", "gelu_bert", "transpose_square_1024", "max_pool3x3s2_64_112"),
)

HALVES = KERNELS[:11]  # products


def difference(found: Any, want: Any) -> float:
    """The largest, as a part of the largest value."""
    found, want = np.asarray(found, float), np.asarray(want, float)
    scale = max(1.0, float(np.nanmax(np.abs(want), initial=0)))
    same = (found == want) | (np.isnan(found) & np.isnan(want))
    return float(np.abs(np.where(same, 0, found - want)).max(initial=0)) / scale


def right(models: Sequence[str], sheet: str, device: Callable[[], Any]) -> Iterator[str]:
    """A line a model: how far its outputs are from the CPU's."""
    for model in models:
        try:
            c = explorer.compile(f"zoo:{model}", target=sheet)
            inputs = c.random_inputs()
            found = c.on_gpu(device).run(inputs)
        except IronworksError as problem:
            yield f"{model:28} not run: {problem}"
            continue
        want = explorer.compile(f"zoo:{model}", target="cpu").run(inputs)
        worst = max((difference(found[n], want[n]) for n in want), default=0.0)
        yield f"{model:28} {'right' if worst < 1e-4 else 'WRONG'}, apart by {worst:.1e}"


def launcher(code: BlockCode, arrays: Sequence[Any], gpu: Gpu) -> Callable[[], None]:
    """A launch of a block's code on arrays of the device, in the stream that PyTorch uses."""
    dtypes = tuple(t.dtype for t in code.tensors)
    made = machine_code(code.source, "kernel", dtypes, code.threads, gpu.capability)
    function = gpu.loaded(made, code.dynamic_bytes).handle
    return StreamCalls(0).launch(function, code.grid, code.threads, code.dynamic_bytes, arrays)


def event_us(run: Callable[[], object]) -> float:
    """Microseconds of one run, by the device's events: the median of some turns."""
    import torch

    run()
    torch.cuda.synchronize()
    found = []
    for _ in range(TURNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(TIMES):
            run()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / TIMES * 1e3)
    return float(median(found))


def operands(c: explorer.Compilation, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray | None]:
    """What the one thread block of a program takes, flat; None for its output."""
    (block,), (binding,) = c.blocks, c.program.kernel_calls
    call, found = binding.kernel_call, list[np.ndarray | None]()
    assert block.code is not None
    values = dict(zip(call.kernel.inputs, call.args, strict=True))
    for t in block.code.tensors:
        name = getattr(values.get(t.name), "name", "")
        constant = c.program.constants.get(name)
        value = inputs.get(name) if constant is None else constant.array
        found.append(None if value is None else np.ravel(value)[t.offset :])
    return found


def row_of(case: Case, sheet: str, folder: Path) -> tuple[str, float]:
    """The line of a row of the kernel table, and how many times as fast as PyTorch."""
    import torch

    from explorer.tuning.peers.torch_peer import Frozen, torch_plan

    cuda = import_module("numba.cuda")
    model = written(case.proto(), folder)
    c = explorer.compile(model, target=sheet)
    (block,) = c.blocks
    if block.code is None:
        raise BadOption(block.refused)
    given = [torch.from_numpy(x).cuda() for x in case.inputs.values()]
    with torch.inference_mode():
        peer = Frozen(torch_plan(model.program)).cuda()
        (theirs,) = peer(*given)
        out = torch.empty_like(theirs.contiguous())
        tensors = [
            out.reshape(-1) if x is None else torch.from_numpy(x.copy()).cuda()
            for x in operands(c, case.inputs)
        ]
        arrays = [cuda.as_cuda_array(x) for x in tensors]
        ours = launcher(block.code, arrays, Gpu())
        ours()
        torch.cuda.synchronize()
        apart = difference(out.cpu(), theirs.cpu())
        our_us, their_us = event_us(ours), event_us(lambda: peer(*given))
    moved = sum(x.numel() * x.element_size() for x in (*given, theirs)) / our_us / 1e3
    rate = f"{case.operations / our_us / 1e3:,.0f} GFLOP/s, " if case.operations else ""
    ways = (b for blocks in c.chosen_blocks().values() for b in blocks)
    where = "tensor cores, " if any(b.matrix for b in ways) else ""
    line = (
        f"{our_us:9.1f} us, PyTorch {their_us:9.1f}: {their_us / our_us:.2f} of it; {where}{rate}"
        f"{moved:,.0f} GB/s; apart by {apart:.1e}"
    )
    return line, their_us / our_us


def kernels(rows: Sequence[str], sheet: str, folder: Path, dtype: str = "float32") -> Iterator[str]:
    """A line a row, then the geometric mean of the ratios of each kind."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    known, ratios = {o.name: o for o in operators()}, dict[str, list[float]]()
    for row in rows:
        case = Case(known[row], BATCH, dtype)
        try:
            line, ratio = row_of(case, sheet, folder)
        except (IronworksError, RuntimeError, ValueError) as problem:
            yield f"{row:28} not run: {type(problem).__name__}: {str(problem)[:200]}"
            continue
        ratios.setdefault(case.operator.kind, []).append(ratio)
        yield f"{row:28} {line}"
    for kind, found in ratios.items():
        yield f"{kind}: {exp(sum(map(log, found)) / len(found)):.2f} over {len(found)} rows"


def programs(models: Sequence[str], sheet: str, record: Path | None) -> Iterator[str]:
    """A line a model, and one that says how far the plan is from what was measured."""
    for model in models:
        c = explorer.compile(f"zoo:{model}", target=sheet)
        on, inputs = c.on_gpu(), c.random_inputs()
        wall = on.measured_wall(inputs, 9)
        others = dict(_peers(c, inputs))
        theirs = ", ".join(f"{n} {us:,.0f} ({us / wall.total_us:.2f})" for n, us in others.items())
        yield f"{model:12} {wall.total_us:10,.0f} us of one launch; {theirs}"
        yield f"{'':12} {_beside(on, wall)}"
        yield f"{'':12} {_otherwise(c, inputs, wall.total_us)}"
        if record is not None:
            on.record(record / f"{model}.run.json", inputs)


def _peers(c: explorer.Compilation, inputs: dict[str, np.ndarray]) -> Iterator[tuple[str, float]]:
    """PyTorch's ways with a model, in microseconds a run."""
    import torch

    from explorer.tuning.peers.torch_peer import Frozen, torch_plan

    given = [torch.from_numpy(inputs[p.name]).cuda() for p in c.model.program.main.params]
    with torch.inference_mode():
        try:
            eager = Frozen(torch_plan(c.model.program)).cuda()
            yield "eager", event_us(lambda: eager(*given))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                eager(*given)
            yield "CUDA graph", event_us(graph.replay)
            compiled = torch.compile(eager)
            yield "torch.compile", event_us(lambda: compiled(*given))
        except (IronworksError, RuntimeError) as problem:
            yield f"then {type(problem).__name__}: {str(problem)[:80]}", float("nan")


def _otherwise(c: explorer.Compilation, inputs: dict[str, np.ndarray], whole_us: float) -> str:
    """Our own kernels in several launches, asked for one by one and as a CUDA graph."""
    found = list[str]()
    for launches in ("operator", "wave"):
        for graph in (False, True):
            try:
                us = c.on_gpu(None, launches, graph).measured_wall(inputs, 9).total_us
            except IronworksError as problem:
                return str(problem)
            how = f"a launch an {launches}" if launches == "operator" else "a launch a wave"
            asked = " in a graph" if graph else ""
            found.append(f"{how}{asked} {us:,.0f} us ({us / whole_us:.2f})")
    return ", ".join(found)


def _beside(on: OnGpu, wall: Any) -> str:
    """The measured wall beside the planned one of as many units."""
    recorded, planned = dict[str, float](), dict[str, float]()
    plan = on.c.device_program(units=wall.units).plan.wall
    for found, bricks in ((recorded, wall.bricks), (planned, plan.bricks)):
        for b in bricks:
            found[b.call] = found.get(b.call, 0.0) + b.end_us - b.start_us
    names = [n for n in recorded if n in planned]
    first, second = (np.argsort(np.argsort([x[n] for n in names])) for x in (recorded, planned))
    agree = float(np.corrcoef(first, second)[0, 1]) if len(names) > 2 else float("nan")
    total = plan.total_us
    return (
        f"planned {total:,.0f} us, {total / wall.total_us:.2f} of the measured; rank "
        f"correlation of {len(names)} calls {agree:.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """What was asked for, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", default=["right", "kernels", "halves", "programs"])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--sheet", default="h100")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--stand-in", action="store_true", help="right without a GPU, slowly")
    asked = parser.parse_args(arguments)
    device: Callable[[], Any] = (lambda: SimulatedDriver(3)) if asked.stand_in else Gpu
    with TemporaryDirectory() as folder:
        for part in asked.parts:
            lines = {
                "right": lambda: right(asked.only or names(), asked.sheet, device),
                "kernels": lambda: kernels(asked.only or KERNELS, asked.sheet, Path(folder)),
                "halves": lambda: kernels(
                    asked.only or HALVES, asked.sheet, Path(folder), "float16"
                ),
                "programs": lambda: programs(asked.only or PROGRAMS, asked.sheet, asked.record),
            }[part]()
            print(f"-- {part}", flush=True)
            for line in lines:
                print(line, flush=True)


if __name__ == "__main__":
    main()
