"""What the assembler tells of thread blocks, and what follows for a multiprocessor."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from explorer.codegen.cuda import assemble as assembler
from explorer.codegen.cuda import machine_code as machine
from explorer.codegen.cuda.assemble import (
    EXACT,
    SPILLED,
    USED,
    assemble,
    disassembler,
    occupancy,
    ptx_listing,
    sass,
    sass_listing,
    why_not,
    with_lines,
)
from explorer.codegen.cuda.block_kernel import BlockKernel
from explorer.codegen.cuda.machine_code import machine_code
from explorer.devices.catalogue import device
from explorer.errors import BadOption, KernelCompileError
from tests.codegen.cases import Case, linear
from tests.codegen.cuda.launched import A100, code_of
from tests.tile.gpu.blocks import case

needs_numba_cuda = pytest.mark.skipif(
    find_spec("numba_cuda") is None, reason="numba-cuda is not installed: ironworks[cuda]"
)
SOME = ("linear 5x7x9", "conv 1x7x7x3", "softmax 2 33", "integers", "mask", "narrow sum float16")


@needs_numba_cuda
@pytest.mark.parametrize("capability", [75, 80, 90])
@pytest.mark.parametrize("name", SOME)
def test_blocks_are_assembled(name: str, capability: int) -> None:
    gpu = replace(A100, capability=capability)
    found = assemble(code_of(case(name), gpu), gpu)
    assert f".target sm_{capability}" in found.ptx
    assert 0 < found.registers <= 255 and found.spilled_bytes == 0
    assert found.shared_bytes <= code_of(case(name), gpu).shared_bytes


@needs_numba_cuda
@pytest.mark.parametrize("name", SOME)
def test_lines_of_ptx_have_the_lines_of_the_source(name: str) -> None:
    code = code_of(case(name), A100)
    listings = with_lines(code, A100)
    found = listings.llvm
    lines, texts = code.source.split("\n"), found.text.rstrip("\n").split("\n")
    assert found.text == assemble(code, A100).ptx and listings.note
    assert len(found.lines) == len(texts)
    stores = [lines[n - 1] for n, text in zip(found.lines, texts) if "st.global" in text and n]
    assert stores and all("] = " in line for line in stores)


PTX = (
    "// head\n\tmul.f32 \t%f1, %f2, %f3;\n\tadd.f32 \t%f4, %f1, %f1;\n\tst.shared [_smem_1], %f4;\n"
)


def test_a_copy_of_ptx_that_differs_lends_its_lines_only_where_it_is_the_same() -> None:
    first, second, third, fourth = PTX.rstrip().split("\n")
    marked = [first, "\t.loc\t1 7 1", second, "\t.loc\t1 8 1", third, fourth.replace("_1", "_5")]
    same, note = ptx_listing(PTX, "\n".join([*marked, '\t.file\t1 "x"']))
    assert note == EXACT.format("PTX") and same.lines == (0, 7, 8, 8) and same.text == PTX
    marked[4] = "\tsub.f32 \t%f4, %f1, %f1;"
    other, note = ptx_listing(PTX, "\n".join(marked))
    assert other.lines == (0, 7, 0, 8) and "1 of 4 lines" in note


@pytest.mark.skipif(not disassembler(), reason="NVIDIA's disassembler is not installed")
@needs_numba_cuda
@pytest.mark.parametrize("name", SOME)
def test_instructions_have_the_lines_of_the_source(name: str) -> None:
    code = code_of(case(name), A100)
    found = with_lines(code, A100).assembly
    lines, texts = code.source.split("\n"), found.text.rstrip("\n").split("\n")
    assert found.text == sass(assemble(code, A100).cubin) and len(found.lines) == len(texts)
    stores = [n for n, text in zip(found.lines, texts) if "STG.E" in text]
    assert stores and all(n and "] = " in lines[n - 1] for n in stores)
    linked = sum(map(bool, found.lines)) / sum("/*0" in text and ";" in text for text in texts)
    assert linked > 0.9


SASS = "\t.section\tx\n        /*0000*/      MOV R1, R2 ;\n        /*0010*/      EXIT ;\n"


def test_an_instruction_that_was_inlined_has_its_own_line() -> None:
    head, first, second = SASS.rstrip().split("\n")
    mark = '\t//## File "x", line {}'
    inlined = [mark.format(3) + ' inlined at "x", line 9', mark.format(9)]
    found, note = sass_listing(SASS, "\n".join([head, *inlined, first, mark.format(8), second]))
    assert found.lines == (0, 3, 8) and found.text == SASS and note == EXACT.format("SASS")


@needs_numba_cuda
def test_a_product_keeps_its_sums_in_registers() -> None:
    code = code_of(linear(512, 512, 512, "relu", {}), A100)
    found = assemble(code, A100)
    sums = {*re.findall(r"\bt\d+_sums_\d+", code.source)}
    assert found.registers >= len(sums) > 8 and found.spilled_bytes == 0
    assert "fma.rn.f32" in found.ptx and ".local" not in found.ptx


@needs_numba_cuda
def test_a_kernel_takes_seven_words_an_array() -> None:
    """As they are launched with, by addresses."""
    code = code_of(linear(5, 7, 9, "relu", {}), A100)
    dtypes = tuple(t.dtype for t in code.tensors)
    made = machine_code(code.source, "kernel", dtypes, code.threads, 80)
    assert made.entry in made.ptx and made.entry.encode() in made.cubin
    assert made.cubin[:4] == b"\x7fELF"
    head = made.ptx[made.ptx.index(".entry") :]
    assert head[: head.index(")")].count(".param") == 7 * len(dtypes)


@pytest.mark.skipif(not disassembler(), reason="NVIDIA's disassembler is not installed")
@needs_numba_cuda
def test_what_a_gpu_runs_is_shown() -> None:
    """PTX in the place of LLVM IR, SASS as assembly, each behind the figures."""
    code = code_of(linear(64, 64, 64, "relu", {}), A100)
    shown = BlockKernel("product", frozenset(), A100, code).listings
    for listing, word in ((shown.llvm, "fma.rn.f32"), (shown.assembly, "FFMA")):
        assert listing.text.startswith("// predicted for a100: ") and word in listing.text
    with pytest.raises(KernelCompileError, match="nvdisasm rejects"):
        sass(b"no object file")


def test_a_disassembler_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.codegen.cuda.assemble.disassembler", lambda: "")
    assert "pip install nvidia-cuda-nvdisasm" in sass(b"whatever")


def test_a_disassembler_that_does_not_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is no program; one that never ends."""
    tool = tmp_path / "nvdisasm"
    monkeypatch.setattr("explorer.codegen.cuda.assemble.disassembler", lambda: str(tool))
    monkeypatch.setattr("explorer.codegen.cuda.assemble.PATIENCE_S", 0.2)
    for text, cubin in (("no program", b"one"), ("#!/bin/sh\nexec sleep 9\n", b"two")):
        tool.write_text(text)
        tool.chmod(0o755)
        with pytest.raises(KernelCompileError, match="nvdisasm did not run"):
            sass(cubin)


@needs_numba_cuda
def test_code_is_compiled_once_on_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process finds it; what lies there damaged, or was another tool's, is not taken."""
    monkeypatch.setenv("IRONWORKS_CACHE", str(tmp_path))
    code = code_of(linear(4, 6, 10, "relu", {}), A100)
    dtypes = tuple(t.dtype for t in code.tensors)
    asked = (code.source, "kernel", dtypes, code.threads, 80)
    made = machine_code(*asked)

    def refused(*given: object) -> str:
        raise AssertionError("compiled again")

    with monkeypatch.context() as m:
        machine_code.cache_clear()
        m.setattr(machine, "_ptx", refused)
        assert machine_code(*asked) == made
        machine_code.cache_clear()
        m.setattr(machine, "_tools", lambda: ("numba 0",))
        with pytest.raises(KernelCompileError, match="compiled again"):
            machine_code(*asked)
    for entry in tmp_path.rglob("*"):
        if entry.is_file():
            entry.write_bytes(entry.read_bytes()[:-9] + b"damaged!!")
    machine_code.cache_clear()
    assert machine_code(*asked).cubin[:4] == made.cubin[:4] and made.entry in made.ptx
    assert machine._unpacked(b"short") is None and machine._unpacked(bytes(30)) is None


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "find_spec", lambda name: None)
    code: Case = case("mask")
    with pytest.raises(BadOption, match=r"pip install 'ironworks\[cuda\]'"):
        assemble(code_of(code, A100), A100)
    monkeypatch.setattr(assembler, "find_spec", lambda name: name)
    assert "CUDA 13 needs compute capability 7.5 or more" in why_not(device("v100"))
    assert why_not(A100) == ""


def test_the_assemblers_words_are_read() -> None:
    """As nvJitLink 13.5 writes them."""
    log = (
        "ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 744 bytes cmem[0]\n"
        "info    : used 44 registers, used 1 barriers, 0 stack, 6272 bytes smem, "
        "744 bytes cmem[0], 176 bytes cmem[2], 0 bytes lmem\n"
    )
    used = USED.search(log)
    assert used is not None and used.groups() == ("44", "0", "6272", "0")
    assert SPILLED.findall(log) == [("12", "16")]


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "by"),
    [
        (256, 32, 0, 8, "threads"),
        (256, 64, 0, 4, "registers"),
        (256, 33, 0, 6, "registers"),  # 40 registers a thread are taken
        (128, 32, 40_960, 4, "shared memory"),  # 41,984 with what is reserved
        (32, 16, 0, 32, "blocks"),
        (48, 32, 0, 32, "threads"),  # two warps a block
    ],
)
def test_an_a100_holds_as_many_blocks_as_the_calculator_says(
    threads: int, registers: int, shared: int, blocks: int, by: str
) -> None:
    found = occupancy(A100, threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, by)
    assert found.warps == blocks * -(-threads // 32) and found.most_warps == 64
    assert f"{found.share:.0%}" in found.summary


def test_a_block_that_no_multiprocessor_holds() -> None:
    assert occupancy(A100, 1024, 128, 0).blocks == 0
