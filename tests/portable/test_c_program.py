"""Exported C programs compile without a warning and compute what the compilation computes."""

from __future__ import annotations

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.errors import BadOption
from explorer.portable.c_program import CProgram
from explorer.portable.c_text import comment, prefix_of, string
from explorer.portable.portable_program import PortableTensor
from explorer.portable.program import portable
from explorer.portable.write import Exported
from tests.portable.c_build import ADDRESSES, Library, built, require_compiler, run
from tests.portable.cases import (
    assert_close,
    assert_equal,
    compiled,
    emulated_target,
    from_onnx,
    inputs_of,
    tree_inputs,
)
from tests.strategies.onnx import graphs

MODELS = ("tiny_bert", "tiny_while", "small_beam_search", "small_recursive_autoencoder")
HOSTILE = (
    'quote " and \\ backslash',
    "*/ int main; /*",
    "line\nbreak\r\n#define",
    "??/ trigraph",
    "模型",
    "3rd",
    "%s %n",
    "$(touch x); `y`",
    "main",
    "",
)


@pytest.fixture(autouse=True)
def compiler() -> None:
    require_compiler()


def exported(c: explorer.Compilation, folder: Path, **options: object) -> Exported:
    return explorer.export(c, folder / "out", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_the_same_bits(name: str, tmp_path: Path) -> None:
    c = compiled(name)
    inputs = inputs_of(c)
    library, expected = Library(exported(c, tmp_path)), c.run(inputs)
    for _ in range(2):
        assert_equal(library.run(inputs), expected)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ("small_moe", "tiny_resnet18", "tiny_lstm", "small_looped_lstm"))
def test_no_address_is_wrong_and_nothing_is_undefined(name: str, tmp_path: Path) -> None:
    c = compiled(name)
    inputs, written = inputs_of(c), exported(c, tmp_path)
    assert_equal(run(built(written, *ADDRESSES), written, inputs), c.run(inputs))


def test_a_deep_recursion_is_a_fault_with_a_sentence(tmp_path: Path) -> None:
    c = compiled("small_recursive_autoencoder")
    inputs = tree_inputs(c)
    library = Library(exported(c, tmp_path))
    fault, _ = library.result({**inputs, "left": np.zeros_like(inputs["left"])})
    assert fault == 1 and "calls deep" in library.fault(1)
    assert library.fault(0) == library.fault(99) == library.fault(-1) == "no fault"
    assert_equal(library.run(inputs), c.run(inputs))  # a fault leaves nothing behind


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(782000, 782020))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    case = graphs.case(seed)
    c = from_onnx(case.model, tmp_path)
    feeds = case.feeds[0]
    shapes = zip(c.executable.program.main.params, feeds.values(), strict=True)
    dims = {str(d): n for p, a in shapes for d, n in zip(p.type.dims, a.shape)}
    sizes = {name: dims[name] for name in c.hint if name in dims}
    try:
        written = exported(c, tmp_path, sizes=sizes)
    except BadOption as problem:
        assert "needs Python while it runs" in problem.sentence
        return
    assert_equal(Library(written).run(feeds), c.executable.run(feeds))


def test_cmake_builds_a_program_and_a_library_that_ctypes_loads(tmp_path: Path) -> None:
    c = compiled("tiny_while")
    spaced = tmp_path / "a folder's name"
    spaced.mkdir()
    inputs, written = inputs_of(c), exported(c, spaced)
    build = spaced / "build"
    for command in (["-S", written.folder, "-B", build], ["--build", build]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert_equal(run(build / "tiny_while", written, inputs), c.run(inputs))
    assert_equal(Library(written, build / "libtiny_while.so").run(inputs), c.run(inputs))
    done = subprocess.run([build / "tiny_while", "inputs", "outputs", "3"], cwd=build, text=True,
                          capture_output=True)  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("us, the median of 3 runs\n")


def test_two_threads_run_with_an_arena_each(tmp_path: Path) -> None:
    c = compiled("tiny_bert")
    library = Library(exported(c, tmp_path))
    cases = [c.random_inputs() for _ in range(2)]
    cases[1] = {n: a[..., ::-1].copy() for n, a in cases[0].items()}
    expected = [c.run(inputs) for inputs in cases]

    def often(n: int) -> None:
        for _ in range(20):
            assert_equal(library.run(cases[n]), expected[n])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(often, range(2)))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_the_model_is_harmless(name: str, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", [f"x {name}"], [f"y {name}"], name=name)],
        "g",
        [helper.make_tensor_value_info(f"x {name}", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info(f"y {name}", TensorProto.FLOAT, [3])],
    )
    c = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path)
    program = portable(c)
    x, y = program.inputs[0].name, program.outputs[0].name
    written = exported(c, tmp_path)
    hostile = CProgram.of(replace(program, name=name))
    for file in (f"{written.prefix}.h", f"{written.prefix}.c"):
        (written.folder / file).unlink()
    for file, text in hostile.files().items():
        (written.folder / file).write_text(text)
    renamed = replace(written, prefix=hostile.prefix)
    result = run(built(renamed), written, {x: np.array([1, -2, np.nan], np.float32)})
    np.testing.assert_array_equal(result[y], np.array([1, 0, np.nan], np.float32))


def test_names_in_c_are_words() -> None:
    names = ("a/b.onnx", "3rd", "B-1", "模型", "", "main", "Tést", "_x", "all")
    assert [prefix_of(n) for n in names] == [
        "b", "model_3rd", "b_1", "model", "model", "model_main", "t_st", "x", "model_all",
    ]  # fmt: skip
    assert comment("*/ \\\n é ??/") == "_/ __ _ __/"
    assert string('"\\?\né') == '"\\042\\134\\077\\012\\303\\251"'


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], outputs: list[str],
             constants: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:  # fmt: skip
    """Return a model of float32 tensors."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


NODE = helper.make_node
EDGES = {
    "no elements": model_of([NODE("Relu", ["x"], ["y"])], {"x": [0, 3]}, ["y"]),
    "no inputs": model_of(
        [NODE("Exp", ["c"], ["y"])], {}, ["y"], {"c": np.arange(5, dtype=np.float32)}
    ),
    "a scalar": model_of([NODE("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": [4, 3]}, ["y"]),
    "an output that is an input": model_of(
        [NODE("Identity", ["x"], ["y"]), NODE("Neg", ["x"], ["z"])], {"x": [7]}, ["y", "z"]
    ),
    "a view of an input": model_of([NODE("Flatten", ["x"], ["y"])], {"x": [2, 3, 4]}, ["y"]),
    "the same output twice": model_of(
        [NODE("Neg", ["x"], ["y"]), NODE("Identity", ["y"], ["z"])], {"x": [7]}, ["y", "z"]
    ),
    "a constant": model_of(
        [NODE("Identity", ["c"], ["y"]), NODE("Abs", ["x"], ["z"])],
        {"x": [2]},
        ["y", "z"],
        {"c": np.float32([[1, np.nan], [-np.inf, 4]])},
    ),
    "NaN and infinity": model_of(
        [NODE("Softmax", ["x"], ["y"]), NODE("Max", ["x", "y"], ["z"])], {"x": [3, 4]}, ["y", "z"]
    ),
    "names alike in C": model_of(
        [NODE("Neg", ["a b"], ["y.1"]), NODE("Neg", ["a-b"], ["y_1"])],
        {"a b": [2], "a-b": [2]},
        ["y.1", "y_1"],
    ),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge: str, tmp_path: Path) -> None:
    c = from_onnx(EDGES[edge], tmp_path)
    inputs = c.random_inputs()
    for array in inputs.values():
        array.reshape(-1)[:3] = [np.nan, np.inf, -np.inf][: array.size]
    written = exported(c, tmp_path)
    with np.errstate(all="ignore"):
        expected = c.run(inputs)
    assert_equal(run(built(written, *ADDRESSES), written, inputs), expected)


def test_the_header_lists_the_tensors(tmp_path: Path) -> None:
    written = exported(compiled("tiny_while"), tmp_path)
    header = (written.folder / "tiny_while.h").read_text()
    for t in (*written.program.inputs, *written.program.outputs):
        assert isinstance(t, PortableTensor)
    assert f"#define TINY_WHILE_INPUTS {len(written.program.inputs)}" in header
    assert f"#define TINY_WHILE_ARENA_BYTES ((size_t){written.arena_bytes})" in header
    assert "int tiny_while_run(const void *const *inputs, void *const *outputs, void *arena);" in (
        header
    )
    assert ctypes.sizeof(ctypes.c_void_p) == 8


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("machine", ("aarch64", "riscv64"))
@pytest.mark.parametrize("name", ("tiny_bert", "tiny_while"))
def test_other_machines_compute_the_same(name: str, machine: str, tmp_path: Path) -> None:
    require_compiler(machine)
    here, c = compiled(name), compiled(name, emulated_target(machine, tmp_path))
    inputs, written = inputs_of(here), exported(c, tmp_path)
    program = built(written, machine=machine)
    assert_close(run(program, written, inputs, machine), here.run(inputs))
