"""WebGPU programs run by the package wgpu on any adapter with Vulkan, as Mesa's lavapipe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from explorer.codegen.wgsl.build import Shader
from explorer.codegen.wgsl.print import ShaderOptions, dispatch_of
from explorer.codegen.wgsl.types import SHADER_F16, SUBGROUPS
from explorer.ir.dims import Sizes, evaluate_shape
from explorer.ir.kernel import Kernel
from explorer.portable.portable_program import PortableTensor
from explorer.portable.webgpu import WebGpuProgram, as_words, from_words

LAVAPIPE = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
STEP = 256  # bytes between the places of two dispatches
POISON = 0x7FC0DEAD  # NaN as a float
NAMES = {SHADER_F16: "shader-f16", SUBGROUPS: "subgroup"}  # in wgpu


@cache
def device() -> Any:
    """A device of the first adapter with Vulkan, or None."""
    if LAVAPIPE.is_file():
        os.environ.setdefault("VK_ICD_FILENAMES", str(LAVAPIPE))
    try:
        wgpu = import_module("wgpu")
    except ImportError:
        return None
    adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] == "Vulkan"]
    if not adapters:
        return None
    adapter = adapters[0]
    features = [f for f in ("shader-f16", "subgroup") if f in adapter.features]
    return adapter.request_device_sync(required_features=features)


def features() -> frozenset[str]:
    """The features of the adapter, by WebGPU's names."""
    return frozenset(name for name, own in NAMES.items() if own in device().features)


class Gpu:
    """Buffers and pipelines of one program or kernel."""

    def __init__(self, arena_words: int, weights: bytes) -> None:
        wgpu = import_module("wgpu")
        self.device, self.usage = device(), wgpu.BufferUsage
        self.arena_words = max(64, arena_words)
        self.weights = self.buffer(np.frombuffer(weights or bytes(4), np.uint8), self.usage.STORAGE)
        self.pipelines: dict[str, Any] = {}

    def buffer(self, data: np.ndarray, usage: int) -> Any:
        usage |= self.usage.COPY_DST | self.usage.COPY_SRC
        padded = np.ascontiguousarray(data).tobytes()
        padded += bytes(-len(padded) % 4)
        return self.device.create_buffer_with_data(data=padded or bytes(4), usage=usage)

    def layout(self, checked: bool, size: int) -> tuple[Any, Any]:
        wgpu = import_module("wgpu")
        kinds = ["read-only-storage", "storage", "uniform"]
        kinds += ["storage", "read-only-storage"] if checked else []
        entries = [
            {
                "binding": n,
                "visibility": wgpu.ShaderStage.COMPUTE,
                "buffer": {
                    "type": kind,
                    "has_dynamic_offset": kind == "uniform",
                    "min_binding_size": size if kind == "uniform" else 4,
                },
            }
            for n, kind in enumerate(kinds)
        ]
        group = self.device.create_bind_group_layout(entries=entries)
        return group, self.device.create_pipeline_layout(bind_group_layouts=[group])

    def run(
        self,
        arena: np.ndarray,
        dispatches: Sequence[tuple[str, Sequence[int], tuple[int, int]]],
        order: np.ndarray | None = None,
    ) -> tuple[np.ndarray, int]:
        """Run dispatches of (source, places, workgroups); return the arena, and the last fault."""
        if not dispatches:
            return arena, 0
        checked, usage = order is not None, self.usage
        most = max([16, *(4 * len(places) for _, places, _ in dispatches)])
        step = -(-most // STEP) * STEP
        rows = np.zeros((len(dispatches), step // 4), np.uint32)
        for row, (_, places, _) in zip(rows, dispatches):
            row[: len(places)] = places
        buffers = [
            (self.weights, 0), (self.buffer(arena, usage.STORAGE), 0),
            (self.buffer(rows, usage.UNIFORM), step),
        ]  # fmt: skip
        if order is not None:
            fault = self.buffer(np.zeros(4, np.uint32), usage.STORAGE)
            buffers += [(fault, 0), (self.buffer(order, usage.STORAGE), 0)]
        group_layout, layout = self.layout(checked, step)
        group = self.device.create_bind_group(
            layout=group_layout,
            entries=[
                {"binding": n, "resource": {"buffer": b, "offset": 0, "size": size or b.size}}
                for n, (b, size) in enumerate(buffers)
            ],
        )
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for n, (source, _, groups) in enumerate(dispatches):
            compute.set_pipeline(self.pipeline(source, layout))
            compute.set_bind_group(0, group, [n * step])
            compute.dispatch_workgroups(*groups, 1)
        compute.end()
        self.device.queue.submit([encoder.finish()])
        result = np.frombuffer(self.device.queue.read_buffer(buffers[1][0]), np.uint32).copy()
        failed = 0
        if checked:
            failed = int(np.frombuffer(self.device.queue.read_buffer(buffers[3][0]), np.uint32)[0])
        return result, failed

    def pipeline(self, source: str, layout: Any) -> Any:
        if source not in self.pipelines:
            code = source.replace("enable subgroups;\n", "")  # naga has them without it
            module = self.device.create_shader_module(code=code)
            self.pipelines[source] = self.device.create_compute_pipeline(
                layout=layout, compute={"module": module, "entry_point": "main"}
            )
        return self.pipelines[source]


def shuffled_order(grid: int, threads: int, seed: int) -> np.ndarray:
    """Workgroups and threads in a random order."""
    random = np.random.default_rng(seed)
    return np.concatenate((random.permutation(grid), random.permutation(threads))).astype(np.uint32)


def launch(
    shader: Shader,
    kernel: Kernel,
    args: Sequence[np.ndarray],
    sizes: Sizes,
    seed: int | None = None,
    features: frozenset[str] = frozenset(),
    lanes: int = 0,
) -> tuple[np.ndarray, ...]:
    """Run one kernel on its inputs; with a seed in checked form, in a random order."""
    arrays = dict(zip(kernel.inputs, args, strict=True))
    places, words, weights, end = {}, [], bytearray(), 0
    is_weight = {t.name: t.is_weight for t in shader.tensors}
    for name in kernel.inputs:
        dtype = kernel.dtype(name)
        if is_weight.get(name):
            array = arrays[name]
            if dtype in ("int64", "uint64"):
                array = array.astype(np.uint32 if dtype == "uint64" else np.int32)
            size = array.dtype.itemsize
            places[name] = len(weights) // size
            weights += np.ascontiguousarray(array).tobytes() + bytes(-array.nbytes % 256)
        else:
            data = as_words(arrays[name], dtype)
            places[name], end = end, end + data.size
            words.append(data)
    outputs = {}
    for name in kernel.outputs:
        shape = evaluate_shape(kernel.shape(name), sizes)
        updated = kernel.updated(name)
        if updated is None:
            count = int(np.prod(shape, dtype=np.int64))
            places[name], end = end, end + count
            words.append(np.full(count, POISON, np.uint32))
        else:
            places[name] = places[updated]
        outputs[name] = PortableTensor(name, kernel.dtype(name), shape, places[name])
    arena = np.concatenate([*words, np.full(64, POISON, np.uint32)])
    if shader.grid:
        options = ShaderOptions(features, lanes, seed is not None)
        source = shader.with_options(options).source
        own = [places[t.name] + t.offset for t in shader.tensors]
        order = None
        if seed is not None:
            order, own = shuffled_order(shader.grid, shader.threads, seed), [*own, 0]
        gpu = Gpu(arena.size, bytes(weights))
        arena, fault = gpu.run(arena, [(source, own, dispatch_of(shader.grid))], order)
        assert not fault, f"{shader.tensors[fault - 1]} is accessed out of bounds"
    return tuple(from_words(arena[t.at : t.at + t.elements].copy(), t) for t in outputs.values())


def run_program(
    p: WebGpuProgram, inputs: Mapping[str, np.ndarray], seed: int | None = None
) -> dict[str, np.ndarray]:
    """Run a program; with a seed in checked form, every dispatch in a random order."""
    arena = np.full(p.arena_bytes // 4, POISON, np.uint32)
    weights = np.frombuffer(p.weights, np.uint32)
    for f in p.fixed:
        arena[f.at : f.at + f.words] = weights[f.weights_at : f.weights_at + f.words]
    for t in p.inputs:
        arena[t.at : t.at + t.elements] = as_words(inputs[t.name], t.dtype)
    dispatches, end = [], 0
    orders: list[np.ndarray] = []
    for d in p.dispatches:
        shader, places = p.shaders[d.shader].shader, list(d.places)
        source = shader.source
        if seed is not None:
            source = shader.with_options(ShaderOptions(checked=True)).source
            orders.append(shuffled_order(shader.grid, shader.threads, seed + len(orders)))
            places.append(end)
            end += len(orders[-1])
        dispatches.append((source, places, dispatch_of(shader.grid)))
    order = None if seed is None else np.concatenate(orders or [np.zeros(1, np.uint32)])
    arena, fault = Gpu(arena.size, p.weights).run(arena, dispatches, order)
    assert not fault, "a tensor is accessed out of bounds"
    return {t.name: from_words(arena[t.at : t.at + t.elements].copy(), t) for t in p.outputs}
