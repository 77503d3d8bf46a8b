"""Barriers, limits, integers and text of shaders."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.build import print_tile_program as print_cuda
from explorer.codegen.cuda.simulator import run_block_source
from explorer.codegen.wgsl import print as printer
from explorer.codegen.wgsl.build import MOST_WORKGROUP_BYTES, Shader, print_shader
from explorer.codegen.wgsl.print import MOST_GROUPS, ShaderOptions, dispatch_of
from explorer.devices.catalogue import device
from explorer.ir.decisions.tiling import thread_block
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.tile_program import Shuffle, Sync
from explorer.ir.tile_traversal import statements
from explorer.ops.interpreter.evaluate import bind_sizes, evaluate_kernel
from explorer.portable.webgpu import webgpu_program
from tests.codegen.cases import CASES, ENV, Case, arrays
from tests.targets.wgsl import gpu
from tests.targets.wgsl.comparing import difference

needs_gpu = pytest.mark.skipif(
    gpu.device() is None, reason="no package wgpu, or no adapter with Vulkan such as lavapipe"
)
WEBGPU = device("webgpu")
BARRIER = re.compile(r"^ *(?:storageBarrier\(\); )?workgroupBarrier\(\);$", re.MULTILINE)
PLAIN = [c for c in CASES if all(t.dtype in ("float32", "int64") for t in c.kernel.tensors)]


def shader_of(c: Case) -> Shader:
    """The shader of a case."""
    return print_shader(c.kernel, WEBGPU, ENV, c.sizes)


def exchanges(shader: Shader) -> int:
    """The steps of all shuffles."""
    shuffles = (s for s in statements(shader.tile_program.body) if isinstance(s, Shuffle))
    return sum(s.lanes.bit_length() - 1 for s in shuffles)


def test_a_shader_has_the_barriers_of_its_tile_program() -> None:
    """One a Sync, as CUDA's, one a step of a shuffle, and one before each shuffle but the first."""
    numbers = set()
    for c in CASES:
        shader = shader_of(c)
        program = shader.tile_program
        syncs = sum(isinstance(s, Sync) for s in statements(program.body))
        shuffles = sum(isinstance(s, Shuffle) for s in statements(program.body))
        own = exchanges(shader) + max(0, shuffles - 1)
        assert len(BARRIER.findall(shader.source)) == syncs + own, c
        numbers.add((syncs > 0, shuffles > 0))
    assert (True, True) in numbers or {(True, False), (False, True)} <= numbers


@pytest.mark.few(6)
@pytest.mark.parametrize("c", PLAIN, ids=lambda c: c.name)
def test_its_tile_program_has_no_race_in_the_simulator_of_cuda(c: Case) -> None:
    """Its statements and barriers are printed from it, so threads may run in any order."""
    program = shader_of(c).tile_program
    code = print_cuda(program)
    values = arrays(c, 0)
    want = evaluate_kernel(c.kernel, [values[n] for n in c.kernel.inputs], c.sizes)
    shader = shader_of(c)
    own = {t.local: values[t.name] for t in shader.tensors if t.name in values}
    outputs = [t for t in shader.tensors if t.name not in values]
    if len(outputs) != 1 or c.kernel.updates or any(t.offset for t in shader.tensors):
        return
    shape, dtype = np.shape(want), numpy_dtype(outputs[0].dtype)
    result = np.full(shape, 77).astype(dtype)
    flat = {t.local: np.ravel(own.get(t.local, result)) for t in shader.tensors}
    run_block_source(code.source, code.grid, code.threads, code.dynamic_bytes, flat, 3)
    assert not difference(flat[outputs[0].local].reshape(shape), np.asarray(want))


@needs_gpu
@pytest.mark.few(20)
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_a_kernel_is_right_in_any_order_of_workgroups_and_threads(c: Case) -> None:
    values = arrays(c, 1)
    args = [values[n] for n in c.kernel.inputs]
    want = np.asarray(evaluate_kernel(c.kernel, args, c.sizes))
    shader = shader_of(c)
    for seed in (None, 1, 2):
        (got,) = gpu.launch(shader, c.kernel, args, c.sizes, seed)
        assert not difference(got, want)


@needs_gpu
def test_a_missing_barrier_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of its barriers a kernel is wrong, in some order of its threads."""
    noticed = planted = 0
    for c in CASES[::4]:
        shader = shader_of(c)
        syncs = [m.span() for m in BARRIER.finditer(shader.source)]
        if not syncs or shader.threads <= 64:
            continue
        values = arrays(c, 1)
        args = [values[n] for n in c.kernel.inputs]
        want = np.asarray(evaluate_kernel(c.kernel, args, c.sizes))
        planted += 1
        with monkeypatch.context() as patch:
            patch.setattr(printer, "_barrier", lambda p: "")
            results = [gpu.launch(shader, c.kernel, args, c.sizes, seed)[0] for seed in range(3)]
        noticed += any(difference(got, want) for got in results)
    assert planted >= 3 and noticed == planted


def test_limits_of_webgpu_are_kept() -> None:
    """Elements of two bytes take four in workgroup memory: their tiles are smaller."""
    for c in CASES:
        for dtype in ("float32", "float16"):
            tensors = tuple(
                replace(t, dtype=dtype) if t.dtype == "float32" else t for t in c.kernel.tensors
            )
            shader = shader_of(replace(c, kernel=replace(c.kernel, tensors=tensors)))
            assert shader.threads <= 256 and shader.workgroup_bytes <= MOST_WORKGROUP_BYTES
    assert dispatch_of(MOST_GROUPS) == (MOST_GROUPS, 1)
    columns, rows = dispatch_of(1_000_000)
    assert max(columns, rows) <= MOST_GROUPS and columns * rows >= 1_000_000


@explorer.trace
def doubled(x: explorer.tensor("float32", 70_000)):  # type: ignore[no-untyped-def, valid-type]
    return x + x


@needs_gpu
@pytest.mark.parametrize("seed", [None, 1])
def test_more_workgroups_than_one_row_of_a_dispatch_has(seed: int | None) -> None:
    c = explorer.compile(doubled, "webgpu")
    kernel = c.program.kernel_calls[0].kernel_call.kernel
    block = thread_block((("i0", 1),), 1, (("i0", 1),))
    shader = print_shader(kernel, WEBGPU, ShapeEnv(), {}, block)
    assert shader.grid == 70_000 > MOST_GROUPS
    x = np.arange(70_000, dtype=np.float32)
    (got,) = gpu.launch(shader, kernel, [x], {}, seed)
    np.testing.assert_array_equal(got, x + x)


@explorer.trace
def squares(k: explorer.tensor("int64", 5)):  # type: ignore[no-untyped-def, valid-type]
    return k * k


@explorer.trace
def largest(x: explorer.tensor("float32", 5, 9)):  # type: ignore[no-untyped-def, valid-type]
    return explorer.np.argmax(x, 1) * 4 + 1


@explorer.trace
def doubles(x: explorer.tensor("float64", 5)):  # type: ignore[no-untyped-def, valid-type]
    return x + x


def refusals(function: Any) -> list[str]:
    """The reasons why kernels of a function have no shader."""
    return [b.refused for b in explorer.compile(function, "webgpu").blocks if b.refused]


def test_wide_integers_are_refused_unless_they_are_small() -> None:
    (why,) = refusals(squares)
    assert why.startswith("the result of mul of dtype int64 may be from ")
    assert "WGSL has integers of 32 bits only" in why
    assert not refusals(largest)
    (why,) = refusals(doubles)
    assert "WGSL has no float64; convert the model to float32" in why
    with pytest.raises(explorer.errors.BadOption, match="squares has no program for WebGPU"):
        webgpu_program(explorer.compile(squares, "webgpu"))


@needs_gpu
def test_indices_are_computed_in_32_bits() -> None:
    c = explorer.compile(largest, "webgpu")
    x = {"x": np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)}
    (got,) = gpu.run_program(webgpu_program(c), x).values()
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, x["x"].argmax(1) * 4 + 1)


def test_source_and_plan_are_there_without_a_gpu() -> None:
    c = explorer.compile(explorer.load("zoo:tiny_bert"), "webgpu")
    assert c.planned_wall().total_us > 0 and len(c.blocks) == len(c.program.kernel_calls)
    assert all("@compute @workgroup_size(" in b.source for b in c.blocks)
    sizes = bind_sizes(c.program, c.random_inputs())
    assert all(len(blocks) for blocks in c.chosen_blocks(sizes).values())


def test_a_checked_shader_differs_in_checks_alone() -> None:
    shader = shader_of(CASES[0])
    checked = shader.with_options(ShaderOptions(checked=True))
    assert "fault[0]" in checked.source and "fault[0]" not in shader.source
    assert checked.with_options(ShaderOptions()).source == shader.source
