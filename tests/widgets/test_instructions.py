"""What instructions do is told of all that our kernels have, and of nothing else."""

from importlib.util import find_spec

import pytest

import explorer
from explorer.codegen.cuda.assemble import disassembler
from tests.widgets import made_by_hand as hand
from widgets.program import instructions
from widgets.session.session import Session


def names(text: str) -> set[str]:
    return {name for line in text.split("\n") if (name := instructions.instruction_name(line))}


@pytest.mark.few(3)
@pytest.mark.parametrize("device", ["cpu-avx512", "cpu-avx2"])
@pytest.mark.parametrize(
    "model",
    ["tiny_while", "tiny_skip", pytest.param("tiny_mobilenetv2", marks=pytest.mark.exhaustive)],
)
def test_every_instruction_of_our_kernels_is_explained(model: str, device: str) -> None:
    kernels = explorer.compile(f"tests/data/{model}.onnx", device).kernels
    found = set[str]().union(*(names(kernel.listings.assembly.text) for kernel in kernels))
    assert len(found) > 30
    assert sorted(name for name in found if not instructions.meaning(name)) == []


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_every_instruction_of_a_thread_block_is_explained() -> None:
    blocks = explorer.compile("zoo:small_lstm", "h100").blocks
    listings = [b.listings for b in blocks]
    texts = [[x.llvm.text for x in listings]]
    if disassembler():
        texts.append([x.assembly.text for x in listings])
    for language in texts:
        found = set[str]().union(*map(names, language))
        assert len(found) > 20
        assert sorted(name for name in found if not instructions.meaning(name)) == []


def test_forms_are_written_out() -> None:
    known = instructions.meanings()
    assert known["vaddps"] == "Adds packed 32-bit floats." and known["addsd"].endswith(
        "64-bit floats."
    )
    assert known["jbe"] == "Goes on at a label if below or equal, without signs."
    assert known["movzwl"] == "Copies 16 bits and fills up with 0 to a 32-bit number."
    assert "<" not in "".join((*known, *known.values()))
    assert all(told.endswith(".") and len(told) < 130 for told in known.values())


def test_an_instruction_of_ptx_is_known_by_its_first_parts() -> None:
    assert instructions.meaning("ld.shared.v4.f32") == "Loads from the shared memory of the block."
    assert instructions.meaning("cvt.sat.f32.f32") != instructions.meaning("cvt.rn.f32.s32")
    assert "four" in instructions.meaning("LDS.128") and "GPU" in instructions.meaning("LDG.E")
    assert (
        instructions.instruction_name("        /*0010*/              @!P0 FFMA R1, R2, R3 ;")
        == "FFMA"
    )
    assert instructions.meaning("ld") == instructions.meaning("vnothing") == ""


def test_of_an_unknown_instruction_nothing_is_told() -> None:
    lines = ("f:", "\tvaddps %zmm0", "\tfrobnicate %rax", "\t@%p1 bra $L__BB0_2;", "\t.p2align 4")
    assert set(instructions.explain_instructions(lines)) == {"vaddps", "bra"}
    answer = Session(hand.HandMade()).answer("kernel", {"call": 0, "language": "assembly"})
    assert set(answer["help"]) == {"vfmadd231ps", "retq"}
