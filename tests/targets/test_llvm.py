"""Devices that are not here and no GPU: names, plans, code, and what their sheets must say."""

from __future__ import annotations

import pytest

import explorer
from explorer import cli
from explorer.codegen.cpu.cross import EXACT, cross_compile
from explorer.devices.catalogue import SHEETS, device_names
from explorer.devices.isa import InstructionSet
from explorer.devices.sheet import read_sheet
from explorer.errors import BadOption, BadSheet, KernelCompileError, NoSuchDevice
from widgets.program import instructions

CPU_SHEETS = device_names("cpu")
NAMES = {
    "cortex-a76": "raspberry-pi-5",
    "android": "pixel-6",
    "m1": "apple-m1",
    "riscv64-v": "bpi-f3",
    "wasm32": "wasm-simd128",
    "relaxed-simd": "wasm-relaxed",
}
PRODUCTS = {  # the multiply-add of vectors
    "raspberry-pi-5": "fmla",
    "pixel-6": "fmla",
    "apple-m1": "fmla",
    "bpi-f3": "vfma",
    "wasm-simd128": "f32x4.mul",
    "wasm-relaxed": "f32x4.relaxed_madd",
}
FROM_C = {  # what a linker must find; those of C's mathematical library are in `cross_functions`
    "memset", "memcpy", "memmove", "bzero", "memset_pattern16",
}  # fmt: skip


def test_devices_are_known_by_their_processor_too() -> None:
    for name, sheet in NAMES.items():
        assert explorer.device(name).name == sheet
    assert set(NAMES.values()) == set(CPU_SHEETS)
    with pytest.raises(NoSuchDevice, match="did you mean 'cortex-a76'"):
        explorer.device("cortex-a67")


@pytest.mark.parametrize("name", CPU_SHEETS)
def test_a_compilation_has_a_plan_and_code_of_the_platform(name: str) -> None:
    c = explorer.compile("zoo:tiny_lstm", name)
    assert c.stage.name == "PLANNED" and c.planned_wall().bricks
    texts = [b.listings for b in c.blocks]
    assert all(b.source and not b.refused for b in c.blocks)
    assert any(PRODUCTS[name] in t.assembly.text for t in texts)
    assert sum(t.note == EXACT for t in texts) > len(texts) / 2
    for t in texts:
        assert f'target triple = "{c.device.isa.triple}"' in t.llvm.text
        if t.note == EXACT:  # else LLVM makes other code with line marks, and the note says so
            assert len(t.assembly.lines) == t.assembly.text.count("\n")
            assert max(t.assembly.lines) > 0
    found = {n for t in texts for x in t.assembly.text.split("\n") if (n := name_of(x))}
    platform = instructions.platform_of(found)
    assert platform in instructions.OTHERS
    assert [n for n in sorted(found) if not instructions.meaning(n, platform)] == []


def name_of(line: str) -> str:
    return instructions.instruction_name(line)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CPU_SHEETS)
@pytest.mark.parametrize("model", ["tiny_bert", "tiny_mobilenetv2", "tiny_llama", "tiny_vit"])
def test_every_instruction_is_explained(model: str, name: str) -> None:
    for b in explorer.compile(f"zoo:{model}", name).blocks:
        lines = b.listings.assembly.text.split("\n")
        found = {n for line in lines if (n := name_of(line))}
        assert found - instructions.explain_instructions(lines).keys() == set()


@pytest.mark.parametrize("name", CPU_SHEETS)
def test_objects_ask_a_linker_for_little(name: str) -> None:
    c = explorer.compile("zoo:tiny_while", name)
    for b in c.blocks:
        code = cross_compile(b.source, c.device.isa)
        assert set(code.undefined) <= FROM_C and code.code and code.symbol in code.llvm
        again = cross_compile(b.source, c.device.isa)
        assert (again.code, again.llvm, again.seconds) == (code.code, code.llvm, 0.0)


def test_functions_that_numba_compiles_here_are_calls_of_cs_library() -> None:
    @explorer.trace
    def sine(x: explorer.tensor("float32", 40)):  # type: ignore[no-untyped-def,valid-type]
        return explorer.np.sin(x)

    for name in ("wasm32", "cortex-a76", "m1"):
        c = explorer.compile(sine, name)
        assert cross_compile(c.blocks[0].source, c.device.isa).undefined == ("sinf",)


def test_a_platform_that_was_never_tried_is_refused_before_llvm_ends_the_process() -> None:
    c = explorer.compile("zoo:tiny_while", "wasm32")
    with pytest.raises(KernelCompileError, match="not compiled for the platform 'amdgcn-amd-"):
        cross_compile(c.blocks[0].source, InstructionSet("gfx90a", (), "amdgcn-amd-amdhsa"))


def test_the_key_of_this_machines_code_has_no_platform_in_it() -> None:
    plain = InstructionSet("znver4", ("+avx2",))
    assert plain.text == "znver4 +avx2"
    assert InstructionSet("znver4", ("+avx2",), "x86_64-linux").text != plain.text


def test_products_are_fused_where_an_instruction_is() -> None:
    fuses = {name: explorer.device(name).isa.fuses for name in CPU_SHEETS}
    assert [name for name, is_fused in fuses.items() if not is_fused] == ["wasm-simd128"]


def test_vectors_of_sse_have_no_call_for_each_product() -> None:
    texts = [k.assembly for k in explorer.compile("zoo:tiny_lstm", "cpu-sse").kernels]
    assert any("mulps" in t for t in texts) and not any("fmaf" in t for t in texts)


def test_a_sheet_states_its_platform_in_full() -> None:
    text = (SHEETS / "bpi-f3.toml").read_text().replace('name = "bpi-f3"', 'name = "mine"', 1)
    assert read_sheet(text).isa == explorer.device("bpi-f3").isa
    wrong = {
        'triple = "riscv64-unknown-linux-gnu"': 'triple = "amdgcn-amd-amdhsa"',
        'processor = "spacemit-x60"': 'processor = "X 60"',
        '"+zfh"': '"zfh"',
        "arithmetic = ": "rounding = ",
        'kind = "cpu"': 'kind = "gpu"',
    }
    for before, after in wrong.items():
        with pytest.raises(BadSheet, match="instruction_set"):
            read_sheet(text.replace(before, after, 1))
    begin, end = text.index("[instruction_set]"), text.index("[[levels]]")
    with pytest.raises(BadSheet, match=r"'llvm' needs an \[instruction_set\]"):
        read_sheet(text[:begin] + text[end:])


def test_a_shell_compiles_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    model = "zoo:tiny_lstm"
    assert cli.main(["compile", model, "--target", "cortex-a76"]) == 0
    assert "raspberry-pi-5" in capsys.readouterr().out
    assert cli.main(["devices", "cortex-a76"]) == 0
    out = capsys.readouterr().out
    assert "Arm Cortex-A76 Software Optimization Guide" in out and "FMLA" in out


def test_what_runs_elsewhere_is_not_run_here() -> None:
    c = explorer.compile("zoo:tiny_lstm", "cortex-a76")
    with pytest.raises(BadOption, match="raspberry-pi-5"):
        c.run({})
