"""Kernel calls on memory images, run here, by Node, and by qemu.

An image holds every buffer of one call between guards. Its argument block has offsets in the image,
to which each runner adds the image's address.
"""

from __future__ import annotations

import ctypes
import functools
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import pytest

from explorer.codegen.build import Argument, print_kernel
from explorer.codegen.cpu.cross import CrossObject, cross_compile
from explorer.codegen.cpu.object_code import compile_cfunc
from explorer.codegen.wasm import link_wasm
from explorer.compiler.compilation import Compilation
from explorer.devices.isa import InstructionSet
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.kernel import Kernel
from explorer.tile.lowering.packing import pack_constant

GUARD = 256
POISON = 0xA5
NODE_SCRIPT = Path(__file__).with_name("run_kernels.mjs")
C_MAIN = Path(__file__).with_name("run_kernels.c")
RELAXED = "--experimental-wasm-relaxed-simd"
ZIG = {"aarch64": "aarch64-linux-musl", "riscv64": "riscv64-linux-musl"}
QEMU = {
    "aarch64": ("qemu-aarch64-static", "-cpu", "max"),
    "riscv64": (
        "qemu-riscv64-static",
        "-cpu",
        "rv64,v=true,vlen=256,elen=64,vext_spec=v1.0,zba=true,zbb=true,zbs=true,Zfh=true",
    ),
}


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor in an image that a kernel writes: offset, dtype, elements."""

    name: str
    at: int
    dtype: str
    count: int

    def of(self, image: bytes) -> np.ndarray:
        """Its elements in an image."""
        return np.frombuffer(image, self.dtype, self.count, self.at)


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel call: its source, its tasks, its argument block, and its memory before.

    `words` are (is an offset in the image, value).
    """

    name: str
    source: str
    tasks: int
    words: tuple[tuple[bool, int], ...]
    image: bytes
    outputs: tuple[Output, ...]
    scratch: tuple[tuple[int, int], ...]  # of no meaning afterwards


def calls_of(c: Compilation) -> list[Call]:
    """Every kernel call of a compilation under its hints, with random inputs."""
    program, sizes = c.program, c.hint
    found = dict[str, Call]()
    for number, binding in enumerate(program.kernel_calls):
        call = binding.kernel_call
        source, tiles, arguments = print_kernel(
            call.kernel, call.tiling or Tiling(), program.env, c.device
        )
        made = _call(call.kernel, source, tiles.tasks(sizes), arguments, sizes, number)
        found.setdefault(source, replace(made, name=binding.name))
    return list(found.values())


def _call(
    kernel: Kernel,
    source: str,
    tasks: int,
    arguments: Sequence[Argument],
    sizes: Sizes,
    seed: int,
) -> Call:
    rng = np.random.default_rng(seed)
    image, offsets = bytearray(), dict[str, int]()
    words, outputs, scratch = list[tuple[bool, int]](), list[Output](), list[tuple[int, int]]()

    def place(data: bytes) -> int:
        image.extend(bytes([POISON]) * (GUARD + -(len(image) + GUARD) % 64))
        at = len(image)
        image.extend(data)
        return at

    def tensor(name: str) -> int:
        updated = {output: taken for output, taken in kernel.updates}
        name = updated.get(name, name)
        if name not in offsets:
            shape = evaluate_shape(kernel.shape(name), sizes)
            offsets[name] = place(values(rng, kernel.dtype(name), shape).tobytes())
        return offsets[name]

    for a in arguments:
        match a.kind:
            case "tensor":
                words.append((True, tensor(a.name) + a.begin_bytes(sizes)))
            case "packed":
                assert a.packing is not None
                shape = evaluate_shape(kernel.shape(a.name), sizes)
                array = values(rng, kernel.dtype(a.name), shape)
                words.append((True, place(pack_constant(a.packing, array).tobytes())))
            case "table":
                words.append((True, place(np.array(a.values, np.int64).tobytes())))
            case "scratch":
                size = evaluate_dim(a.elements, sizes) * a.item_bytes + 64
                words.append((True, place(bytes(size))))
                scratch.append((words[-1][1], size))
            case _:
                words.append((False, sizes[a.name]))
    for name in kernel.outputs:
        count = prod(evaluate_shape(kernel.shape(name), sizes))
        outputs.append(Output(name, tensor(name), stored(kernel.dtype(name)), count))
    place(b"")
    return Call("", source, tasks, tuple(words), bytes(image), tuple(outputs), tuple(scratch))


def stored(dtype: str) -> str:
    """The NumPy dtype of the bytes."""
    return {"bool": "uint8", "bfloat16": "uint16"}.get(dtype, dtype)


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random elements; indices are small."""
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    if dtype == "bfloat16":
        bits = rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.uint8)
    return rng.integers(0, 4, shape).astype(dtype)


def run_here(call: Call, isa: InstructionSet) -> bytes:
    """The image after a call on this machine, by the same source."""
    code = compile_cfunc(call.source, isa)
    block = np.zeros(len(call.image) + 64, np.uint8)
    begin = -block.ctypes.data % 64
    image = block[begin : begin + len(call.image)]
    image[:] = np.frombuffer(call.image, np.uint8)
    words = [value + image.ctypes.data * is_offset for is_offset, value in call.words]
    args = np.array([*words, 0], np.int64)
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function(code.address)(0, call.tasks, args.ctypes.data)
    return image.tobytes()


def run_node(calls: Sequence[Call], isa: InstructionSet, folder: Path) -> list[bytes]:
    """The images after calls in Node, all in one module."""
    objects = unique(cross_compile(call.source, isa) for call in calls)
    module = link_wasm([o.code for o in objects])
    (folder / "module.wasm").write_bytes(module.code)
    about = {
        "at": module.data_end,
        "stack": module.data_at,
        "imports": module.imports,
        "calls": [
            {
                "symbol": cross_compile(call.source, isa).symbol,
                "tasks": call.tasks,
                "words": [[int(is_offset), str(value)] for is_offset, value in call.words],
                "bytes": len(call.image),
            }
            for call in calls
        ],
    }
    (folder / "calls.json").write_text(json.dumps(about))
    (folder / "images").write_bytes(b"".join(call.image for call in calls))
    flags = node_flags() if isa.has("relaxed-simd") else ()
    node = shutil.which("node")
    assert node is not None
    subprocess.run([node, *flags, str(NODE_SCRIPT), str(folder)], check=True, timeout=300)
    return _cut(calls, (folder / "after").read_bytes())


def run_qemu(calls: Sequence[Call], isa: InstructionSet, folder: Path) -> list[bytes]:
    """The images after calls in a program for another machine, linked by zig, run by qemu."""
    objects = unique(cross_compile(call.source, isa) for call in calls)
    architecture = "aarch64" if isa.architecture == "arm64" else isa.architecture
    number = {o.symbol: n for n, o in enumerate(objects)}
    names = [f"{o.symbol}.o" for o in objects]
    for name, o in zip(names, objects, strict=True):
        (folder / name).write_bytes(o.code)
    (folder / "kernels.h").write_text(
        "".join(f"KERNEL({o.symbol})\n" for o in objects), encoding="ascii"
    )
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", ZIG[architecture], "-static", "-O1"]
    build = [*zig, f"-I{folder}", str(C_MAIN), *names, "-lm", "-o", "program"]
    subprocess.run(build, check=True, timeout=600, cwd=folder)
    with (folder / "calls").open("wb") as file:
        for call in calls:
            symbol = cross_compile(call.source, isa).symbol
            head = number[symbol], call.tasks, len(call.words), len(call.image)
            file.write(struct.pack("<4q", *head))
            for is_offset, value in call.words:
                file.write(struct.pack("<2q", is_offset, value))
            file.write(call.image)
    with (folder / "calls").open("rb") as before, (folder / "after").open("wb") as after:
        command = [*QEMU[architecture], str(folder / "program")]
        subprocess.run(command, check=True, timeout=600, stdin=before, stdout=after)
    return _cut(calls, (folder / "after").read_bytes())


def unique(objects: Iterator[CrossObject]) -> list[CrossObject]:
    """One object for each symbol."""
    return list({o.symbol: o for o in objects}.values())


def _cut(calls: Sequence[Call], data: bytes) -> list[bytes]:
    assert len(data) == sum(len(call.image) for call in calls)
    images, at = [], 0
    for call in calls:
        images.append(data[at : at + len(call.image)])
        at += len(call.image)
    return images


def difference(call: Call, found: bytes, wanted: bytes) -> float:
    """The largest difference of an output, over its largest magnitude; elsewhere none may be."""
    largest = 0.0
    rest = [np.frombuffer(image, np.uint8).copy() for image in (found, wanted)]
    for at, size in call.scratch:
        for image in rest:
            image[at : at + size] = 0
    for output in call.outputs:
        a, b = output.of(found), output.of(wanted)
        for image in rest:
            image[output.at : output.at + a.nbytes] = 0
        if output.dtype.startswith("float"):
            a, b = a.astype(np.float64), b.astype(np.float64)
            finite = np.isfinite(b)
            assert np.array_equal(np.isfinite(a), finite), call.name
            whole = max(1e-30, float(np.max(np.abs(b[finite]), initial=0.0)))
            gap = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0))
            largest = max(largest, gap / whole)
        else:
            assert np.array_equal(a, b), call.name
    assert np.array_equal(rest[0], rest[1]), f"{call.name} wrote outside of its outputs"
    return largest


@functools.cache
def node_flags() -> tuple[str, ...]:
    """What Node needs for relaxed SIMD: 20 has it behind a flag."""
    node = shutil.which("node")
    assert node is not None
    options = subprocess.run([node, "--v8-options"], capture_output=True, text=True, check=True)
    return (RELAXED,) if RELAXED[2:] in options.stdout else ()


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="it needs Node")


def needs_qemu(architecture: str) -> pytest.MarkDecorator:
    """Skip without zig and qemu."""
    missing = [] if find_spec("ziglang") else ["the package ziglang"]
    missing += [] if shutil.which(QEMU[architecture][0]) else [QEMU[architecture][0]]
    return pytest.mark.skipif(bool(missing), reason=f"it needs {' and '.join(missing)}")
