"""What the wall of a GPU's data sheet has bricks of is what is printed, and what was priced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer.compiler.pipeline import compile as compile_model
from explorer.cost.bind_kernel import bind_kernel
from explorer.cost.thread_blocks import ThreadBlocks
from explorer.grinder import OperatorTask
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_traversal import threads_of
from explorer.rammer import Options
from explorer.roller.blocks.thread_block import in_own_names, launched, thread_block_steps
from explorer.runtime.executable import Executable
from explorer.tile.gpu.block import why_not_blocks
from explorer.tile.verify import shared_bytes

DATA = Path(__file__).parents[2] / "data"
TINY = sorted(p.name for p in DATA.glob("*.onnx"))
QUICK = [("tiny_while.onnx", "v100"), ("zoo:small_bert", "a100"), ("tiny_resnet18.onnx", "rtx3090")]
SMALL = ("bert", "lstm", "moe", "vit", "resnext29", "swin", "nasnet", "seq2seq", "llama", "nerf")
SHEETS = ("v100", "a100", "h100", "rtx3090")


def chosen(c: explorer.Compilation) -> Iterator[tuple[OperatorTask, int, Tiling | None]]:
    """Each operator of each run with its bricks' tasks and the block that Rammer chose."""
    plan = c.executable.plan(c.hint)
    every = {o.name: o for run in plan.planner.runs for o in run.operators}
    for s in plan.schedules.values():
        for program in s.placement.programs:
            tasks = Counter[tuple[int, int]]()
            for share in program:
                tasks[share.operator, share.kernel] += share.last - share.first
            for (number, kernel), count in tasks.items():
                o = s.facts.operators[number]
                yield every[o.name], count, o.kernel(kernel).block


def priced(c: explorer.Compilation, o: OperatorTask, block: Tiling | None) -> ThreadBlocks:
    """What it was priced as."""
    sheet = c.executable.planner.sheet
    assert sheet is not None
    return next(b for b in sheet.of(o, c.hint) if b.block == block)


def agrees(c: explorer.Compilation) -> int:
    """How many operators agree; the others have no thread blocks at all."""
    printed = Counter[str]()
    for k in c.blocks:
        printed[k.name] += 1
    found = 0
    for o, tasks, block in chosen(c):
        if block is None:
            assert why_not_blocks(launched(o.call.kernel, c.hint))
            assert all(k.code is None for k in c.blocks if k.name == o.binding)
            continue
        codes = [k.code for k in c.blocks if k.name == o.binding and k.code is not None]
        price = priced(c, o, block)
        assert any(
            (k.grid, k.threads, k.shared_bytes)
            == (tasks, price.threads, price.shared_bytes)
            == (price.grid, price.threads, price.shared_bytes)
            for k in codes
        ), o.name
        assert block in c.chosen_blocks()[o.binding]
        found += 1
    return found


def check(model: str, sheet: str) -> None:
    path = model if model.startswith("zoo:") else str(DATA / model)
    c = compile_model(path, sheet, until="planned")
    assert agrees(c) > 0
    assert agrees(c.with_options(rammer=Options(policy="op-by-op"))) > 0


@pytest.mark.few(1)
@pytest.mark.parametrize(("model", "sheet"), QUICK)
def test_a_walls_bricks_are_the_blocks_that_are_printed(model: str, sheet: str) -> None:
    check(model, sheet)


@pytest.mark.exhaustive
@pytest.mark.parametrize("sheet", SHEETS)
@pytest.mark.parametrize("model", [*TINY, *(f"zoo:small_{name}" for name in SMALL)])
def test_all_walls_bricks_are_the_blocks_that_are_printed(model: str, sheet: str) -> None:
    check(model, sheet)


@pytest.mark.exhaustive
def test_half_of_a_gpu_is_no_faster_than_all_of_it() -> None:
    """But for one meeting: tasks on more units are more to wait for, and then all meet."""
    c = compile_model("zoo:small_bert", "a100", until="planned")
    half = Executable(c.program, {}, replace(c.device, units=c.device.units // 2))
    assert c.planned_wall().total_us <= half.planned_wall(c.hint).total_us + c.device.barrier_us


def test_a_block_under_a_kernels_own_names_is_the_same_one() -> None:
    """What is explained and drawn has the names of the kernel, what is printed canonical ones."""
    c = compile_model("zoo:small_bert", "a100", until="planned")
    codes, env = {k.name: k.code for k in c.blocks}, c.program.env
    for b in c.program.kernel_calls:
        bound, code = normalise(bind_kernel(b.kernel_call.kernel, c.hint)), codes[b.name]
        own = in_own_names(c.chosen_blocks()[b.name][0], bound)
        program = thread_block_steps(bound, c.device, env, {}, own)[-1][1]
        assert code is not None and program.tasks({}) == code.grid
        assert threads_of(program.body) == code.threads
        assert shared_bytes(program, c.device) == code.shared_bytes
