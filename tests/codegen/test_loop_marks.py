"""LLVM leaves the steps of a register tile as they come."""

from __future__ import annotations

import re
from dataclasses import replace

from llvmlite import ir

from explorer.codegen.build import print_kernel
from explorer.codegen.cpu.loop_marks import mark_loop, with_loop_metadata
from explorer.codegen.cpu.object.jit_linker import assembly_of, optimised
from explorer.codegen.cpu.object.translate import translate
from explorer.codegen.current_target import compiling_for
from explorer.devices.cpus import CPUS, like
from explorer.ir.decisions.tiling import Micro
from explorer.ir.shapes.dims import ShapeEnv
from tests.codegen.cases import conv
from tests.tile.programs import HERE

# LLVM unrolls for the loop buffer of a processor: Zen 3 holds what 14 products twice are.
ZEN3 = replace(CPUS["cpu-avx2"].target, processor="znver3")
TILE_ROWS = 14  # with one vector of columns and one of values: 16 registers, all that AVX2 has


def test_the_steps_of_a_full_register_tile_are_not_unrolled_into_spills() -> None:
    given = conv(56, 56, 24, 144, 1, 1, 0, n=8, micro=Micro(TILE_ROWS, 1, 8), relu=False)
    source, _, _ = print_kernel(given.kernel, given.tiling, ShapeEnv(), like(HERE, "cpu-avx2"))
    assert f"micro_kernel({TILE_ROWS}, 1, 8" in source
    with compiling_for(ZEN3):
        text = translate(source, "kernel", "kernel_x")
    written = len(re.findall(r"call [^\n]*@\"?llvm\.fma", text))
    assembly = assembly_of(optimised(text, ZEN3), ZEN3)
    assert written == TILE_ROWS == len(re.findall(r"\bvfmadd", assembly))
    assert not re.findall(r"%ymm\d+, -?\d*\(%rsp\)", assembly)


def test_a_mark_says_nothing_until_its_wish_is_written() -> None:
    module = ir.Module("m")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    for name in ("one", "two"):
        block, after = function.append_basic_block(name), function.append_basic_block("after")
        b.branch(block)
        b.position_at_end(block)
        mark_loop(module, b.cbranch(ir.IntType(1)(0), block, after))
        b.position_at_end(after)
    b.ret_void()
    plain = str(module)
    assert "unroll" not in plain and plain.count("!llvm.loop") == 2
    text = with_loop_metadata(plain)
    assert len(set(re.findall(r"^(!\d+) = distinct !\{\1, !1000000, !1000001\}$", text, re.M))) == 2
    assert str(optimised(text, ZEN3))
