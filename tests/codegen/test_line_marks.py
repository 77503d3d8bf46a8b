"""Lines of LLVM IR and assembly have the line of the source that they come from, and are of the
code that runs.
"""

import re

import pytest

from explorer.codegen.build import build_kernel, print_kernel
from explorer.codegen.cpu.math.conversions import NotTranslated
from explorer.codegen.cpu.object import object_code
from explorer.codegen.cpu.object.jit_linker import assembly_of, optimised
from explorer.codegen.cpu.object.object_code import (
    BY_NUMBA,
    EXACT,
    OTHER_CODE,
    compile_cfunc,
    disassemble,
)
from explorer.codegen.cpu.object.translate import translate
from explorer.codegen.current_target import compiling_for
from explorer.codegen.listing import Listing
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.shapes.dims import ShapeEnv
from tests.codegen.cases import CASES
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
