"""Our own way from the source of a kernel to LLVM means what Numba's does."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from explorer.codegen.build import print_kernel
from explorer.codegen.cpu import object_code
from explorer.codegen.cpu.emitter import dim_text
from explorer.codegen.cpu.jit import JitMemory, object_of, optimised
from explorer.codegen.cpu.llvm_value import compiling_for
from explorer.codegen.cpu.object_code import compile_cfunc, disassemble, generator_text, key_of
from explorer.codegen.cpu.print import DECORATOR, HEADER
from explorer.codegen.cpu.translate import translate
from explorer.codegen.cpu.translate_values import NotTranslated
from explorer.codegen.cpu.vector_math import ELEMENTARY
from explorer.errors import KernelCompileError
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, floor_div, symbol
from tests.codegen.cases import CASES
from tests.tile.programs import HERE, TARGET

WIDTHS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
KINDS = (*WIDTHS, "float32", "float64", "bool")
SHELVES = JitMemory()


def source_of(*lines: str) -> str:
    """A kernel: `x` and `y` are addresses of the argument block."""
    body = ("    x = argument(args, 0)", "    y = argument(args, 1)", *(f"    {t}" for t in lines))
    return "\n".join((*HEADER, DECORATOR, "def kernel(first, last, args):", *body)) + "\n"


def by_translation(source: str) -> int:
    """The address of the function as we translate it."""
    symbol = f"kernel_{key_of(source, TARGET)}"
    with compiling_for(TARGET):
        module = optimised(translate(source, "kernel", symbol), TARGET)
    return SHELVES.load(object_of(module, TARGET), symbol, False)[0]


def by_numba(source: str) -> int:
    """The address of the function as Numba translates it."""
    library, symbol = object_code._compile_with_numba(key_of(source, TARGET), source, "kernel")
    return SHELVES.load(library._get_compiled_object(), symbol, shared=False)[0]


def run(address: int, x: np.ndarray, size: int = 16) -> bytes:
    """What the function leaves in `y`."""
    y = np.zeros(size, np.float64)
    args = np.array([x.ctypes.data, y.ctypes.data], np.int64)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    kind(address)(0, 1, args.ctypes.data)
    return y.tobytes()


def same(source: str, x: np.ndarray) -> None:
    """Both ways write the same bytes."""
    assert run(by_translation(source), x) == run(by_numba(source), x)


@pytest.mark.few(20)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_kernel_of_the_cases_is_translated_or_left_to_numba_by_name(case: object) -> None:
    source, _, _ = print_kernel(case.kernel, Tiling(), ShapeEnv(), HERE)  # type: ignore[attr-defined]
    try:
        text = translate(source, "kernel", "kernel_x")
    except NotTranslated as why:
        assert str(why)
    else:
        llvm.parse_assembly(text).verify()


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_loaded_converted_and_stored_as_numba_does(kind: str) -> None:
    values = np.array([0, 1, 2, 3, 100, 127, 5, 6], "uint8").astype(kind)
    stores = ("st_float64(y, 0, D(a))", "st_float32(y, 3, F(a))", "st_int64(y, 3, I(a))")
    lines = (f"a = ld_{kind}(x, 0)", *stores)
    same(source_of(*lines), values[4:])


@pytest.mark.few(20)
@pytest.mark.parametrize(
    ("kind", "op"), tuple(product(WIDTHS, ("+", "-", "*", "<", "==", "&", "^")))
)
def test_whole_numbers_are_widened_as_numba_does(kind: str, op: str) -> None:
    info = np.iinfo(kind)
    values = np.array([info.max, info.min, 3, info.max - 1], kind)
    pairs = [f"ld_{kind}(x, {n}) {op} ld_{kind}(x, {n + 1})" for n in (0, 2)]
    stored = "bool" if op in "<==" else "uint64" if kind.startswith("u") else "int64"
    lines = [f"st_{stored}(y, {n}, {pair})" for n, pair in enumerate(pairs)]
    same(source_of(*lines), values)


def test_the_least_whole_number_is_itself_as_numba_says() -> None:
    least = "-9223372036854775808"
    lines = [f"st_int64(y, 0, {least})", f"st_bool(y, 8, ld_int64(x, 0) == {least})"]
    lines += [f"st_int64(y, {2 + n}, max(ld_int64(x, {n}), {least}))" for n in (0, 1)]
    same(source_of(*lines), np.array([-(2**63), 2**63 - 1], np.int64))


@pytest.mark.few(4)
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "<", "<=", "==", "!=", ">", ">="])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_floats_with_nan_and_infinity_are_computed_as_numba_does(kind: str, op: str) -> None:
    values = np.array([1.5, np.nan, np.inf, -0.0, 3e38, -2.0], kind)
    stored = "bool" if op in ("<", "<=", "==", "!=", ">", ">=") else kind
    lines = [
        f"st_{stored}(y, {6 * i + j}, ld_{kind}(x, {i}) {op} ld_{kind}(x, {j}))"
        for i, j in product(range(6), repeat=2)
    ]
    source = source_of(*lines)
    found = np.frombuffer(run(by_translation(source), values, 64))
    wanted = np.frombuffer(run(by_numba(source), values, 64))
    shape = np.bool_ if stored == "bool" else kind
    np.testing.assert_array_equal(found.view(shape)[:36], wanted.view(shape)[:36])


def test_loops_ranges_and_branches_run_as_python_says() -> None:
    lines = (
        "total = i = 0",
        "for i in range(10):",
        "    for j in range(i, 7, 2):",
        "        if j == 3 or (i > 4 and j < 6):",
        "            continue",
        "        total *= 3",
        "        total += i if j > 2 else -j",
        "for i in range(5, 5):",
        "    total = 0",
        "st_int64(y, 0, min(total, 1 << 40) + max(-7, i))",
    )
    total, i = 0, 0
    for i in range(10):
        for j in range(i, 7, 2):
            if j == 3 or (i > 4 and j < 6):
                continue
            total = total * 3 + (i if j > 2 else -j)
    source = source_of(*lines)
    found = np.frombuffer(run(by_translation(source), np.zeros(1)), np.int64)
    assert found[0] == min(total, 1 << 40) + max(-7, i)


def test_a_quotient_of_a_dim_that_may_be_below_zero_is_translated() -> None:
    n = symbol("n")
    source = source_of(
        "n_n = ld_int64(x, 0)",
        f"st_int64(y, 0, {dim_text(floor_div(n - 5, 3))})",
    )
    address = by_translation(source)
    for size in (0, 1, 4, 5, 7, 8, 100):
        found = np.frombuffer(run(address, np.array([size])), np.int64)[0]
        assert found == (size - 5) // 3


@pytest.mark.parametrize(
    "line",
    [
        "st_float32(y, 0, floor_div(ld_float32(x, 0), F(2.0)))",
        "st_float32(y, 0, sin_(ld_float32(x, 0)))",
        "while first < last: first = first + 1",
        "a = [1]",
        "a = ld_float64(x, 0) + I(1)",
        "for i in range(5, 0, -1): st_int64(y, i, i)",
        "a = args.b",
        "a, b = 1, 2",
        "a = 1 if ld_bool(x, 0) else ld_int64(x, 9)",
        "st_int64(y, 0, first // last)",
    ],
)
def test_what_is_not_of_our_language_is_left_to_numba(line: str) -> None:
    with pytest.raises(NotTranslated):
        translate(source_of(line), "kernel", "kernel_x")


def test_what_is_left_to_numba_still_compiles_and_can_be_looked_at() -> None:
    source = source_of("st_float32(y, 0, sin_(ld_float32(x, 0)))")
    code = compile_cfunc(source, TARGET)
    out = np.frombuffer(run(code.address, np.array([0.5], np.float32)), np.float32)
    assert abs(out[0] - np.sin(np.float32(0.5))) < 1e-6
    found = disassemble(code, source, TARGET)
    assert "define" in found.llvm.text and "ret" in found.assembly.text


def test_a_kernel_that_no_compiler_takes_is_named_in_one_sentence() -> None:
    with pytest.raises(KernelCompileError, match=r"kernel [0-9a-f]{8} does not compile: "):
        compile_cfunc(source_of("st_float32(y, 0)"), TARGET)


def test_every_elementary_function_has_names_that_sources_call() -> None:
    from explorer.codegen.cpu import vector_math

    named = {f"{name}{bits}" for name in ELEMENTARY for bits in (32, 64)}
    assert named | {"power32"} == set(vector_math.__all__)
    keys = {n: generator_text(source_of(f"st_float32(y, 0, {n}(ld_float32(x, 0)))")) for n in named}
    assert set(keys.values()) == {keys["exp32"]} != {generator_text(source_of("pass"))}


@pytest.mark.parametrize(
    ("file", "of_both"), [("cpu.vector_math", False), ("cpu.llvm_value", True)]
)
def test_the_key_of_a_source_holds_the_files_that_it_calls_and_no_others(
    file: str, of_both: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Include a file that only an import of an import names."""
    from explorer.codegen.cpu import object_code

    plain = source_of("st_float32(y, 0, ld_float32(x, 0))")
    mathematical = source_of("st_float32(y, 0, exp32(ld_float32(x, 0)))")
    before = generator_text(plain), generator_text(mathematical)
    assert before[0] != before[1]
    real = object_code._file

    def changed(name: str) -> object:
        found = real(name)
        other = object_code._File(b"changed", found.names, found.imports)
        return other if name == file else found

    monkeypatch.setattr(object_code, "_file", changed)
    object_code._hash_of.cache_clear()
    try:
        after = generator_text(plain), generator_text(mathematical)
    finally:
        object_code._hash_of.cache_clear()
    assert (after[0] != before[0]) == of_both and after[1] != before[1]


def test_where_numba_is_switched_off_what_needs_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of("st_float32(y, 0, [ld_float32(x, 0)][0])")  # a list is none of our words
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(KernelCompileError, match="needs Numba's compiler, which NUMBA_DISABLE_JIT"):
        compile_cfunc(source, TARGET)


@pytest.mark.exhaustive
def test_models_run_where_numba_is_switched_off(tmp_path: Path) -> None:
    script = """
import numpy as np, explorer
c = explorer.compile("tests/data/tiny_lstm.onnx")
given = c.random_inputs()
wanted = explorer.evaluate(c.model.program, given)
for name, value in c.run(given).items():
    np.testing.assert_allclose(value, wanted[name], rtol=1e-3, atol=1e-4)
"""
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "IRONWORKS_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", script], check=True, env=env, timeout=200)
