"""Machine code of a processor from LLVM IR, and machine code in memory.

An engine of LLVM frees its memory as a whole, and takes two milliseconds to create. So one engine
holds some tens of functions, and is freed when all of them are unused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from explorer.devices.isa import ARCHITECTURES, InstructionSet
from explorer.errors import KernelCompileError

MOST_FUNCTIONS = 32  # of an engine; chosen


@cache
def _machine(target: InstructionSet) -> Any:
    """Return LLVM's target machine of a processor, for code at any address of this process."""
    if target.triple:
        return linkable(target)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=target.processor,
        features=",".join(target.features),
        opt=3,
        reloc="static",
        codemodel="jitdefault",
        jit=True,
    )


@cache
def linkable(target: InstructionSet) -> Any:
    """Return LLVM's target machine of a processor, for object files that a linker takes.

    Raises:
        KernelCompileError: LLVM has no such platform.
    """
    triple = target.triple or str(llvm.get_process_triple())
    if target.triple:
        if target.architecture not in ARCHITECTURES:
            raise KernelCompileError(
                f"kernels are not compiled for the platform {triple!r}",
                where=triple,
                expected=f"a triple that begins with {', '.join(ARCHITECTURES)}",
            )
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        _keep_order()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.processor,
        features=",".join(target.features),
        opt=3,
        reloc="static" if target.is_wasm else "pic",
        codemodel="small",
        abiname="lp64d" if target.architecture == "riscv64" and target.has("d") else "",
    )


@cache
def _keep_order() -> None:
    """Make LLVM select instructions in the order of the IR for WebAssembly too.

    Its own order there interleaves the rows of a register tile, so that an engine with 16 vector
    registers spills: SqueezeNet took 1.5 times as long (V8 14.6, Zen 5). x86-64, AArch64 and
    RISC-V have this order anyway: their instructions are ordered after selection.
    """
    llvm.set_option("", "-pre-RA-sched=source")


def optimised(text: str, target: InstructionSet, level: int = 1, machine: Any = None) -> Any:
    """Return the module of an IR text after LLVM's pipeline of that level.

    Loops are vectorised, straight code is not. Kernels come with their vectors, tiles and unrolled
    loops: for real sizes -O3 takes a fourth longer and gains nothing measurable.
    """
    machine = machine or _machine(target)
    module = llvm.parse_assembly(_with_available_products(text, target))
    module.verify()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    wanted = llvm.create_pipeline_tuning_options(speed_level=level)
    wanted.loop_vectorization, wanted.slp_vectorization = True, False
    builder = llvm.create_pass_builder(machine, wanted)
    builder.getModulePassManager().run(module, builder)
    return module


def _with_available_products(text: str, target: InstructionSet) -> str:
    """Return an IR text whose fused products are products and sums where no instruction has them.

    Else each would be a call of `fmaf`. Relaxed SIMD fuses vectors alone, by `llvm.fmuladd`.
    """
    if target.fuses and not target.is_wasm:
        return text
    return text.replace("llvm.fma.", "llvm.fmuladd.")


def object_of(module: Any, target: InstructionSet) -> bytes:
    """Return the object file of a module."""
    return bytes(_machine(target).emit_object(module))


def assembly_of(module: Any, target: InstructionSet) -> str:
    """Return a module in assembly language."""
    return str(_machine(target).emit_assembly(module))


def machine_parts(code: bytes) -> dict[str, bytes]:
    """Return the instructions and constants of an object file, by section."""
    if code.startswith(b"\0asm"):  # LLVM's reader gives its names without an end
        from explorer.codegen.wasm import code_and_data

        return code_and_data(code)
    sections = llvm.ObjectFileRef.from_data(code).sections()
    named = ((section.name() or b"", section) for section in sections)
    texts = ((n.decode() if isinstance(n, bytes) else n, section) for n, section in named)
    return {n: bytes(s.data()) for n, s in texts if s.is_text() or "rodata" in n or "const" in n}


@dataclass(slots=True)
class JitEngine:
    """An engine with its functions: address by name, and the number of users of each."""

    mcjit: Any
    addresses: dict[str, int] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0  # of the object files


class JitMemory:
    """Every engine of this process; callers serialise access to it."""

    def __init__(self) -> None:
        """Create an empty memory."""
        self.engines: list[JitEngine] = []
        self.open_engine: JitEngine | None = None

    @property
    def functions(self) -> int:
        """The number of functions in memory, unused ones of used engines included."""
        return sum(len(s.addresses) for s in self.engines)

    @property
    def size_bytes(self) -> int:
        """The bytes of the object files of all engines."""
        return sum(s.size_bytes for s in self.engines)

    def load(self, code: bytes, symbol: str, shared: bool) -> tuple[int, JitEngine]:
        """Load a function of an object file; return its address and its engine.

        `shared`: the name identifies the content, so one copy serves all, and others may share its
        engine. Raises KernelCompileError if the file has no such function.
        """
        engine = next((s for s in self.engines if symbol in s.addresses), None) if shared else None
        if engine is None:
            if not shared:
                _numba_functions()
            engine = self._room() if shared else self._new()
            engine.mcjit.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.mcjit.finalize_object()
            address = engine.mcjit.get_function_address(symbol)
            if not address:
                raise KernelCompileError(
                    f"the cached object code has no function {symbol}: clear the cache"
                )
            engine.addresses[symbol] = int(address)
            engine.size_bytes += len(code)
        engine.uses[symbol] = engine.uses.get(symbol, 0) + 1
        return engine.addresses[symbol], engine

    def release(self, engine: JitEngine, symbol: str) -> None:
        """Release one use of a function; an entirely unused engine is freed."""
        engine.uses[symbol] -= 1
        if engine.uses[symbol] == 0:
            del engine.uses[symbol]
        if not engine.uses:
            self.engines.remove(engine)
            self.open_engine = None if engine is self.open_engine else self.open_engine
            engine.mcjit.close()

    def _room(self) -> JitEngine:
        """Return an engine with room for one more."""
        if self.open_engine is None or len(self.open_engine.addresses) >= MOST_FUNCTIONS:
            self.open_engine = self._new()
        return self.open_engine

    def _new(self) -> JitEngine:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _loader())
        self.engines.append(JitEngine(engine))
        return self.engines[-1]


@cache
def _numba_functions() -> None:
    """Register the addresses of the functions that a wrapper of Numba calls."""
    from numba.core.registry import cpu_target  # most functions are ours and call none of these

    assert cpu_target.target_context is not None


def _loader() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine()
