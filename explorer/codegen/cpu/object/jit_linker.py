"""Machine code of a processor from LLVM IR."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from explorer.devices.target import Target


@cache
def _machine(target: Target) -> Any:
    """Return LLVM's target machine of a processor, for code at any address."""
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


def optimised(text: str, target: Target, level: int = 1) -> Any:
    """Return the module of an IR text after LLVM's pipeline of that level.

    Loops are vectorised, straight code is not. Kernels come with their vectors, tiles and unrolled
    loops: for real sizes -O3 takes a fourth longer and gains nothing measurable.
    """
    machine = _machine(target)
    module = llvm.parse_assembly(text)
    module.verify()
    module.data_layout = str(machine.target_data)
    wanted = llvm.create_pipeline_tuning_options(speed_level=level)
    wanted.loop_vectorization, wanted.slp_vectorization = True, False
    builder = llvm.create_pass_builder(machine, wanted)
    builder.getModulePassManager().run(module, builder)
    return module


def object_of(module: Any, target: Target) -> bytes:
    """Return the object file of a module."""
    return bytes(_machine(target).emit_object(module))


def assembly_of(module: Any, target: Target) -> str:
    """Return a module in assembly language."""
    return str(_machine(target).emit_assembly(module))


def machine_parts(code: bytes) -> dict[str, bytes]:
    """Return the instructions and constants of an object file, by section."""
    sections = llvm.ObjectFileRef.from_data(code).sections()
    named = ((section.name() or b"", section) for section in sections)
    texts = ((n.decode() if isinstance(n, bytes) else n, section) for n, section in named)
    return {n: bytes(s.data()) for n, s in texts if s.is_text() or "rodata" in n or "const" in n}
