"""Exported C programs, built and run: here by the system's compiler, elsewhere emulated."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.portable.write import Exported
from explorer.runtime.workers.aligned_memory import address_of, aligned_array, aligned_bytes

STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1")
ADDRESSES = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
EMULATORS = {
    "aarch64": ("qemu-aarch64-static",),
    "riscv64": ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=256,Zfh=true"),
}
LINE = 128  # of memory for workers
MOST_RANK = 64
GUARD = 4096  # bytes after memory, which no run writes


class EmulatorFault(Exception):
    """A failed assertion of the emulator: qemu 7.2 fails on some RISC-V instructions."""


def require_compiler(machine: str = "") -> None:
    """Skip a test without a compiler for a machine, "" for this one."""
    if not machine:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler")
        return
    if find_spec("ziglang") is None:
        pytest.skip("there is no cross compiler: pip install ziglang")
    if shutil.which(EMULATORS[machine][0]) is None:
        pytest.skip(f"there is no {EMULATORS[machine][0]}: install qemu-user-static")


def built(written: Exported, *flags: str, machine: str = "") -> Path:
    """Return the program of an exported folder, without a warning."""
    out = written.folder / "program"
    _compile(written, out, ("main.c",), flags, machine)
    return out


def run(
    program: Path,
    written: Exported,
    inputs: Mapping[str, np.ndarray],
    machine: str = "",
    more: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, np.ndarray]:
    """Return the outputs of a built program; `more` are arguments, `shapes` those of outputs."""
    tensors = written.program.inputs
    data = b"".join(np.ascontiguousarray(inputs[t.name]).tobytes() for t in tensors)
    (program.parent / "inputs").write_bytes(data)
    command = [*EMULATORS.get(machine, ()), str(program), "inputs", "outputs", *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=program.parent)
    if "qemu" in done.stderr and "Assertion" in done.stderr:
        raise EmulatorFault(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    data, out = (program.parent / "outputs").read_bytes(), dict[str, np.ndarray]()
    for t in written.program.outputs:
        shape = t.shape if shapes is None else shapes[t.name]
        count = int(np.prod(shape)) * np.dtype(t.dtype).itemsize
        out[t.name] = np.frombuffer(data[:count], t.dtype).reshape(shape)
        data = data[count:]
    assert not data
    return out


class Library:
    """A shared library of an exported folder, as ctypes loads it."""

    def __init__(self, written: Exported, path: Path | None = None) -> None:
        """Compile the library, or load the one at `path`."""
        self.written, self.prefix = written, written.prefix
        if path is None:
            path = written.folder / "library.so"
            _compile(written, path, (), ("-fPIC", "-shared", "-pthread"), "")
        self.library = ctypes.CDLL(str(path))
        self.workers = 0

    def call(self, name: str, *values: object, kind: type = ctypes.c_int) -> int:
        """Call a function of the library."""
        function = self.library[f"{self.prefix}_{name}"]
        function.restype = kind
        return int(function(*values))

    @contextmanager
    def started(self, threads: int = 64) -> Iterator[Library]:
        """Start the workers, all or fewer, and stop them in the end."""
        memory = aligned_bytes(self.call("workers_bytes", kind=ctypes.c_size_t) + 2 * LINE)
        self.workers = -(-address_of(memory) // LINE) * LINE
        assert self.call("start", ctypes.c_void_p(self.workers), threads) == 0
        try:
            yield self
        finally:
            self.call("stop", ctypes.c_void_p(self.workers))

    def run(
        self, inputs: Mapping[str, np.ndarray], dims: Sequence[int] = ()
    ) -> dict[str, np.ndarray]:
        """Return the outputs by name; memory that a run writes first is full of NaN."""
        fault, results = self.result(inputs, dims)
        assert fault == 0, self.fault(fault)
        return results

    def fault(self, number: int) -> str:
        """Return the sentence of a fault."""
        function = self.library[f"{self.prefix}_fault"]
        function.restype = ctypes.c_char_p
        return str(function(number).decode())

    def result(
        self, inputs: Mapping[str, np.ndarray], dims: Sequence[int] = ()
    ) -> tuple[int, dict[str, np.ndarray]]:
        """Return the fault of a run, and its outputs."""
        program = self.written.program
        operands = [_copy(inputs[t.name]) for t in program.inputs]
        sizes = [ctypes.c_int64(d) for d in dims]
        guarded = [_guarded(shape, np.dtype(t.dtype)) for t, shape in self._shapes(sizes)]
        outputs = [array for array, _ in guarded]
        count = self.call("arena_bytes", *sizes, kind=ctypes.c_size_t) if dims else None
        count = self.written.arena_bytes if count is None else count
        arena = aligned_bytes(count + GUARD)
        arena.fill(0xFF)
        more = [ctypes.c_void_p(self.workers)] if self.workers else []
        memory = ctypes.c_void_p(address_of(arena))
        fault = self.call("run", _table(operands), _table(outputs), memory, *more, *sizes)
        for guard in (arena[count:], *(guard for _, guard in guarded)):
            assert (guard == 0xFF).all(), "the run wrote past an end"
        return fault, {t.name: a for t, a in zip(program.outputs, outputs, strict=True)}

    def _shapes(self, sizes: Sequence[ctypes.c_int64]) -> list[tuple[object, tuple[int, ...]]]:
        tensors = self.written.program.outputs
        if not sizes:
            return [(t, t.shape) for t in tensors]
        rows = []
        for n, t in enumerate(tensors):
            shape = (ctypes.c_int64 * MOST_RANK)()
            count = self.call("output_shape", n, shape, *sizes, kind=ctypes.c_size_t)
            rows.append((t, tuple(shape[: len(t.shape)])))
            assert count == np.prod(rows[-1][1]) * np.dtype(t.dtype).itemsize
        return rows


def _guarded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return an array, and the bytes after it, which must not change."""
    count = int(np.prod(shape)) * dtype.itemsize
    memory = aligned_bytes(count + GUARD)
    memory.fill(0xFF)
    return memory[:count].view(dtype).reshape(shape), memory[count:]


def _compile(
    written: Exported, out: Path, more: Sequence[str], flags: Sequence[str], machine: str
) -> None:
    folder = written.folder
    objects = sorted(str(path) for path in (folder / "kernels").glob("*.o"))
    names = (*more, f"{written.prefix}.c", "weights.S")
    sources = [str(folder / name) for name in names]
    command = [*_compiler(machine), *STRICT, *flags, f"-I{folder}", *sources, *objects]
    command += ["-lm", "-pthread", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environment())
    assert done.returncode == 0, done.stderr


def _table(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * (1 + len(arrays)))(*map(address_of, arrays))


def _copy(array: np.ndarray) -> np.ndarray:
    out = aligned_array(array.shape, array.dtype)
    out[...] = array
    return out


def _compiler(machine: str) -> list[str]:
    if not machine:
        return ["cc"]
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl", "-static"]


def _environment() -> dict[str, str]:
    """Return the environment, with a folder for the cross compiler's own cache."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(Path.home() / ".cache" / "zig"), **os.environ}
