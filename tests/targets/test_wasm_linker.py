"""The linker of WebAssembly objects: tables, calls between objects, the stack, what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from explorer.codegen.cpu.jit import linkable
from explorer.codegen.wasm import DATA_AT, LIMITED, SHARED, link_wasm, undefined_functions
from explorer.devices.catalogue import device
from explorer.errors import KernelCompileError
from tests.targets.foreign import needs_node

ISA = device("wasm-simd128").isa
TABLES = """
@first = private constant [3 x i64] [i64 10, i64 20, i64 30]
@second = private constant [2 x i64] [i64 5, i64 7]
@places = private constant [2 x ptr] [ptr getelementptr (i64, ptr @first, i32 2), ptr @second]
define i64 @table(i64 %n) {
  %at = trunc i64 %n to i32
  %place = getelementptr ptr, ptr @places, i32 %at
  %value = load ptr, ptr %place
  %number = load i64, ptr %value
  %more = getelementptr i64, ptr @first, i32 %at
  %other = load i64, ptr %more
  %sum = add i64 %number, %other
  ret i64 %sum
}
"""
CALLER = """
@own = private constant [2 x i64] [i64 100, i64 200]
declare i64 @table(i64)
declare double @outside(double)
define internal i64 @local(i64 %n) noinline {
  %at = trunc i64 %n to i32
  %place = getelementptr i64, ptr @own, i32 %at
  %value = load i64, ptr %place
  ret i64 %value
}
define i64 @twice(i64 %n) {
  %room = alloca [64 x i64]
  %at = trunc i64 %n to i32
  %place = getelementptr i64, ptr %room, i32 %at
  store volatile i64 %n, ptr %place
  %again = load volatile i64, ptr %place
  %one = call i64 @table(i64 %again)
  %two = call i64 @local(i64 %n)
  %x = sitofp i64 %two to double
  %y = call double @outside(double %x)
  %three = fptosi double %y to i64
  %sum = add i64 %one, %three
  ret i64 %sum
}
"""
SCRIPT = """
import fs from "node:fs";
const [, , path, shared] = process.argv;
const memory = new WebAssembly.Memory({ initial: 2, maximum: 16, shared: !!shared });
const __stack_pointer = new WebAssembly.Global({ value: "i32", mutable: true }, 65536);
const env = { memory, __stack_pointer, outside: (x) => x + 1 };
const module = new WebAssembly.Module(fs.readFileSync(path));
const { twice, table } = new WebAssembly.Instance(module, { env }).exports;
console.log(table(0n), table(1n), twice(0n), twice(1n), __stack_pointer.value);
"""


def built(text: str) -> bytes:
    """The object file of LLVM IR."""
    machine = linkable(ISA)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return bytes(machine.emit_object(module))


@needs_node
@pytest.mark.parametrize("shared", [False, True])
def test_objects_with_tables_that_call_each_other_run(shared: bool, tmp_path: Path) -> None:
    for objects in ([TABLES, CALLER], [CALLER, TABLES]):
        module = link_wasm([built(t) for t in objects])
        assert module.code[module.limits_at] == LIMITED
        code = bytearray(module.code)
        code[module.limits_at] = SHARED if shared else LIMITED
        assert set(module.exports) == {"table", "twice"} and module.imports == ("outside",)
        assert module.uses_stack and DATA_AT < module.data_end <= DATA_AT + 80
        (tmp_path / "m.wasm").write_bytes(code)
        (tmp_path / "run.mjs").write_text(SCRIPT)
        node = shutil.which("node")
        assert node is not None
        words = [node, "run.mjs", "m.wasm", *(["shared"] if shared else [])]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["40n", "25n", "141n", "226n", "65536"]


def test_what_an_object_refers_to_is_known_before_it_is_linked() -> None:
    assert undefined_functions(built(CALLER)) == ("outside", "table")
    assert undefined_functions(built(TABLES)) == ()


def test_what_cannot_be_linked_is_refused_in_a_sentence() -> None:
    with pytest.raises(KernelCompileError, match="two objects define the function table"):
        link_wasm([built(TABLES), built(TABLES)])
    with pytest.raises(KernelCompileError, match="no WebAssembly object"):
        link_wasm([b"\x7fELF" + bytes(20)])
    outside = "@there = external global i64\ndefine ptr @f() { ret ptr @there }"
    with pytest.raises(KernelCompileError, match="'there', which no object defines"):
        link_wasm([built(outside)])
    pointer = "define void @g() { ret void }\ndefine ptr @f() { ret ptr @g }"
    with pytest.raises(KernelCompileError, match="a section of kind 9"):
        link_wasm([built(pointer)])
