"""Source lines of listings are those of the code that runs; marked loops stay as they are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from llvmlite import ir

from explorer.codegen.build import build_kernel, print_kernel
from explorer.codegen.cpu import object_code
from explorer.codegen.cpu.jit import assembly_of, optimised
from explorer.codegen.cpu.llvm_value import compiling_for
from explorer.codegen.cpu.object_code import BY_NUMBA, EXACT, OTHER_CODE, compile_cfunc, disassemble
from explorer.codegen.cpu.translate import mark_loop, translate, with_loop_metadata
from explorer.codegen.cpu.translate_values import NotTranslated
from explorer.devices.cpus import CPUS, like
from explorer.devices.listing import Listing
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv
from tests.codegen.cases import CASES, conv
from tests.codegen.test_translate import source_of
from tests.tile.programs import HERE, TARGET

NUMBER = re.compile(r"!\d+")


def unmarked(source: str, symbol: str) -> tuple[str, str]:
    """LLVM IR, its metadata without numbers, and assembly, as no mark was ever in them."""
    with compiling_for(TARGET):
        module = optimised(translate(source, "kernel", symbol), TARGET)
        return unnumbered(str(module)), assembly_of(module, TARGET)


def unnumbered(text: str) -> str:
    """LLVM numbers metadata in an order of its own."""
    body = [line for line in text.rstrip().split("\n") if not line.startswith("!")]
    return "\n".join(NUMBER.sub("!", line) for line in body).rstrip()


def test_kernels_that_share_their_code_share_its_texts() -> None:
    case = CASES[0]
    first, second = (build_kernel(case.kernel, Tiling(), ShapeEnv(), HERE) for _ in range(2))
    assert first is not second and first.listings is second.listings


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_texts_with_lines_are_those_of_the_code_that_runs(case: object) -> None:
    source, _, _ = print_kernel(case.kernel, Tiling(), ShapeEnv(), HERE)  # type: ignore[attr-defined]
    code = compile_cfunc(source, TARGET)
    try:
        llvm, assembly = unmarked(source, code.symbol)
    except NotTranslated:
        pytest.skip("Numba compiles it")
    found = disassemble(code, source, TARGET)
    assert found.note == EXACT
    assert unnumbered(found.llvm.text) == llvm and found.assembly.text == assembly
    for listing in (found.llvm, found.assembly):
        lines = listing.text.rstrip("\n").split("\n")
        assert len(listing.lines) == len(lines)
        assert max(listing.lines) <= source.count("\n")
    instructions = [
        n
        for n, line in zip(found.assembly.lines, assembly.split("\n"))
        if re.match(r"\t[a-z]", line)
    ]
    assert sum(map(bool, instructions)) > 0.6 * len(instructions)


def test_an_instruction_has_the_line_that_asked_for_it() -> None:
    source = source_of(
        "for i in range(first, last):",
        "    a = ld_float64(x, i)",
        "    b = a * a",
        "    st_float64(y, i, b)",
    )
    found = disassemble(compile_cfunc(source, TARGET), source, TARGET)

    def asks(listing: Listing, *words: str) -> set[str]:
        """The lines of the source that lines with one of the words come from."""
        lines, texts = source.split("\n"), listing.text.split("\n")
        mine = (n for n, text in zip(listing.lines, texts) if n and any(w in text for w in words))
        return {lines[n - 1].strip() for n in mine}

    assert asks(found.llvm, " fmul ") == {"b = a * a"}
    assert asks(found.llvm, "store double", "store <") == {"st_float64(y, i, b)"}
    assert asks(found.llvm, "define ") == {"def kernel(first, last, args):"}
    assert asks(found.assembly, "mulpd", "mulsd") == {"b = a * a"}


def test_lines_of_other_code_than_what_runs_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of("st_int64(y, 0, first + 1)")
    code = compile_cfunc(source, TARGET)
    parts = iter(({".text": b"1"}, {".text": b"2"}))
    monkeypatch.setattr(object_code, "machine_parts", lambda _: next(parts))
    found = disassemble(code, source, TARGET)
    assert found.note == OTHER_CODE
    assert found.llvm.lines == found.assembly.lines == ()
    assert found.assembly.text == unmarked(source, code.symbol)[1]


def test_what_numba_compiled_has_no_lines_and_says_so() -> None:
    source = source_of("st_float32(y, 0, sin_(ld_float32(x, 0)))")
    try:
        translate(source, "kernel", "kernel_x")
    except NotTranslated:
        found = disassemble(compile_cfunc(source, TARGET), source, TARGET)
        assert found.note == BY_NUMBA and found.llvm.lines == ()
        assert "define" in found.llvm.text
    else:
        raise AssertionError("our own front end took it")


# LLVM unrolls for the loop buffer of a processor: Zen 3 holds what 14 products twice are.
ZEN3 = replace(CPUS["cpu-avx2"].isa, processor="znver3")
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
