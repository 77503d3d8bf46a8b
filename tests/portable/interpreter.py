"""A slow runner of portable programs in Python, with kernels compiled for this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from explorer.codegen.cpu.object_code import compile_cfunc
from explorer.portable.portable_program import Place, PortableLaunch, PortableProgram
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.aligned_memory import address_of, aligned_array, aligned_bytes

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Runner:
    """Memory of one program; `run` may be called again."""

    def __init__(self, program: PortableProgram) -> None:
        self.program = program
        self.machine = [compile_cfunc(k.source, program.isa) for k in program.kernels]
        self.kernels = [KERNEL(code.address) for code in self.machine]
        self.weights = aligned_bytes(max(1, len(program.weights)))
        self.weights[: len(program.weights)] = np.frombuffer(program.weights, np.uint8)
        self.arena = aligned_bytes(program.arena_bytes + 64)
        self.scratch = aligned_bytes(program.scratch_bytes + 128)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name; memory that a run writes first is full of NaN."""
        program = self.program
        self.arena.fill(0xFF)
        self.scratch.fill(0xFF)
        self.inputs = [_copy(inputs[t.name]) for t in program.inputs]
        self.outputs = [aligned_array(t.shape, np.dtype(t.dtype)) for t in program.outputs]
        self.arguments = np.array([self.address(p) for p in program.arguments] or [0], np.int64)
        for launch in program.launches:
            self.launch(launch)
        for output, place, count in program.copies:
            ctypes.memmove(address_of(self.outputs[output]), self.address(place), count)
        return {t.name: a for t, a in zip(program.outputs, self.outputs, strict=True)}

    def address(self, place: Place) -> int:
        space, number, offset = place
        base = {
            "n": lambda: 0,
            "w": lambda: address_of(self.weights),
            "a": lambda: address_of(self.arena),
            "s": lambda: address_of(self.scratch),
            "i": lambda: address_of(self.inputs[number]),
            "o": lambda: address_of(self.outputs[number]),
        }
        return base[space]() + offset

    def launch(self, launch: PortableLaunch) -> None:
        slots = [self.address(p) for p in launch.slots]
        registers = [0] * launch.registers
        stack = [0] * launch.stack
        at, fault = 0, 0
        while True:
            op, a, b, c, d = launch.rows[at]
            at += 1
            if op == isa.RUN:
                call = launch.calls[a]
                block = address_of(self.arguments) + 8 * call.arguments
                self.kernels[call.kernel](b, c, block)
            elif op == isa.LOOK:
                registers[a] = _load(slots[b], c)
            elif op == isa.BRANCH:
                at = b if registers[a] == 0 else at
            elif op == isa.LOOP:
                at = c if registers[a] + d >= _load(slots[b], 8) else at
            elif op == isa.LET:
                registers[a] = b
            elif op == isa.NEXT:
                registers[a] += 1 + b
            elif op == isa.STORE:
                ctypes.c_int64.from_address(slots[a]).value = registers[b] + c
            elif op == isa.COPY:
                ctypes.memmove(slots[a], slots[b], c)
            elif op == isa.FILL:
                if b == 1:
                    ctypes.c_uint8.from_address(slots[a]).value = c
                else:
                    ctypes.c_int64.from_address(slots[a]).value = c
            elif op == isa.JUMP:
                at = a
            elif op == isa.POINT:
                for p in launch.pointers[a:b]:
                    value = slots[p.source] + registers[c] * p.step + p.begin
                    if p.call < 0:
                        slots[p.at] = value
                    else:
                        self.arguments[launch.calls[p.call].arguments + p.at] = value
            elif op == isa.CALL:
                registers[a] += 1
                frame = c + registers[a] * d
                stack[frame : frame + d] = [at, *registers[a + 1 : a + d]]
                at = b
            elif op == isa.RETURN:
                frame = b + registers[a] * c
                registers[a + 1 : a + c] = stack[frame + 1 : frame + c]
                registers[a] -= 1
                at = stack[frame]
            elif op == isa.DEEPEST:
                if registers[a] >= b:
                    fault, at = c, d
            elif op == isa.QUIT:
                if fault:
                    raise RecursionError(launch.faults[fault - 1])
            elif op == isa.END:
                return


def _load(address: int, count: int) -> int:
    kind = ctypes.c_uint8 if count == 1 else ctypes.c_int64
    return int(kind.from_address(address).value)


def _copy(array: np.ndarray) -> np.ndarray:
    out = aligned_array(array.shape, array.dtype)
    out[...] = array
    return out
