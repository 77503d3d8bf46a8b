"""What a file says becomes a program: names, dims, constants, subgraphs, older versions."""

import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import BoundError
from explorer.frontends.load import load
from explorer.frontends.model import symbol_environment, symbol_name
from explorer.frontends.onnx.onnx_file import read_onnx
from explorer.ir.calls import Branch, Loop, OpCall
from explorer.ir.dims import symbol
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from tests.frontends.models import DATA, model, relu, saved, value

TINY = sorted(p.stem for p in DATA.glob("tiny_*.onnx"))
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_model_is_imported_well_formed(name: str) -> None:
    made = load(DATA / f"{name}.onnx")
    verify(made.program)
    assert made.name == name
    assert made.program.stage == Stage.IMPORTED


def test_symbolic_dims_keep_their_names() -> None:
    assert load(DATA / "tiny_bert.onnx").inputs == {
        "x": Tensor((symbol("batch"), symbol("seq")), "int64")
    }


def test_hints_start_from_the_names_of_the_dims_and_stay_in_bounds() -> None:
    assert load(DATA / "tiny_bert.onnx").program.env.hints == {"batch": 1, "seq": 128}
    bounded = load(DATA / "tiny_bert.onnx", {"batch": (2, 64), "seq": (2, 100)}).program.env
    assert bounded.hints == {"batch": 2, "seq": 100}
    assert (bounded.of("batch").low, bounded.of("batch").high) == (2, 64)
    assert (
        symbol_environment([(symbol("num_steps"), symbol("rows"))], None).hints["num_steps"] == 128
    )


def test_a_hint_comes_from_where_a_symbol_stands_if_its_name_says_nothing() -> None:
    a, b, c, d = map(symbol, "abcd")
    assert symbol_environment([(a, 3, b, c), (d,)], None).hints == {
        "a": 1,
        "b": 224,
        "c": 224,
        "d": 128,
    }
    assert symbol_environment([(a, b), (b, 4)], None).hints == {"a": 1, "b": 128}
    assert symbol_environment([(a, 3, b, b), (a, b)], None).hints == {"a": 1, "b": 128}


def test_dims_of_which_nothing_is_said_are_different_unknowns(tmp_path: Path) -> None:
    dims = load(saved(relu(["?", 3, "?", None, "x_0", "x 0"]), tmp_path)).inputs["x"].dims
    assert len({str(d) for d in dims}) == 6
    assert dims[4] == symbol("x_0_2") and dims[1] == 3


def test_a_bound_of_one_number_fixes_a_dim() -> None:
    known = load(DATA / "tiny_bert.onnx", {"batch": 4}).program.env.of("batch")
    assert (known.low, known.high, known.hint) == (4, 4, 4)


def test_bounds_that_say_nothing_sensible_are_refused() -> None:
    with pytest.raises(BoundError, match="no dim called 'bath'; it has batch, seq"):
        load(DATA / "tiny_bert.onnx", {"bath": (1, 2)})
    with pytest.raises(BoundError, match="'seq' is empty"):
        load(DATA / "tiny_bert.onnx", {"seq": (9, 2)})
    with pytest.raises(BoundError):
        symbol_environment([(symbol("n"),)], {"n": (-1, 2)})


def test_dims_without_a_name_get_one(tmp_path: Path) -> None:
    made = relu([None, 3, "2 strange!"])
    assert load(saved(made, tmp_path)).inputs["x"].dims == (
        symbol("x_0"),
        3,
        symbol("n_2_strange_"),
    )
    assert symbol_name("", "data/0_1") == "data_0_1"


def test_an_initializer_that_is_also_an_input_is_a_constant(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [2]), value("w", [2])],
        ["y"],
        {"w": np.ones(2, np.float32)},
    )
    assert list(load(saved(made, tmp_path)).inputs) == ["x"]


def test_node_names_become_unique(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Relu", ["b"], ["y"], name="act"),
    ]
    program = load(saved(model(nodes, [value("x", [2])], ["y"]), tmp_path)).program
    assert [s.name for s in program.sources] == ["Relu_0", "act", "act.2"]


def test_constants_in_the_graph_become_constants_of_the_program(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["a"], value_floats=[1.0, 2.0]),
        helper.make_node(
            "Constant", [], ["b"], value=numpy_helper.from_array(np.float32([3.0, 4.0]))
        ),
        helper.make_node(
            "ConstantOfShape", ["s"], ["c"], value=numpy_helper.from_array(np.float32([0.5]))
        ),
        helper.make_node("Sum", ["x", "a", "b", "c"], ["y"]),
    ]
    made = load(saved(model(nodes, [value("x", [2])], ["y"], {"s": np.array([2])}), tmp_path))
    assert len(made.program.main.body) == 1
    assert {reason for _, reason in made.program.dropped} == {"became a constant"}
    found = evaluate(made.program, {"x": np.zeros(2, np.float32)})["y"]
    np.testing.assert_array_equal(found, [4.5, 6.5])


def test_a_branch_is_two_functions_of_one_signature() -> None:
    program = load(DATA / "tiny_skip.onnx").program
    (branch,) = [b.expr for b in program.main.body if isinstance(b.expr, Branch)]
    then, orelse = program.function(branch.then), program.function(branch.orelse)
    assert len(then.params) == len(orelse.params) == len(branch.args)


def test_a_loop_is_a_function_over_its_state() -> None:
    program = load(DATA / "tiny_while.onnx").program
    (loop,) = [b.expr for b in program.main.body if isinstance(b.expr, Loop)]
    body = program.function(loop.body)
    assert len(body.params) == 2 + len(loop.state) + len(loop.args)
    assert len(body.outputs) == 1 + len(loop.state)


def test_no_two_bindings_of_a_program_have_one_name() -> None:
    for name in TINY:
        names = [v.name for _, b in load(DATA / f"{name}.onnx").program.bindings() for v in b.vars]
        assert len(set(names)) == len(names)


def captured_if() -> onnx.ModelProto:
    """Each side reads another value of the graph around it, and both call their own value `t`."""

    def side(name: str, op: str) -> onnx.GraphProto:
        nodes = [helper.make_node(op, [name, "w"], ["t"]), helper.make_node("Neg", ["t"], ["r"])]
        return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name="r")])

    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Exp", ["x"], ["b"]),
        helper.make_node(
            "If", ["c"], ["t"], then_branch=side("a", "Add"), else_branch=side("b", "Mul")
        ),
        helper.make_node("Add", ["t", "x"], ["y"]),
    ]
    return model(
        nodes,
        [value("x", [3]), value("c", [], TensorProto.BOOL)],
        ["y"],
        {"w": np.float32([1, 2, 3])},
    )


@pytest.mark.parametrize("taken", [True, False])
def test_branches_capture_values_of_the_graph_around_them(taken: bool, tmp_path: Path) -> None:
    program = load(saved(captured_if(), tmp_path)).program
    verify(program)
    x, w = np.float32([1, -2, 0.5]), np.float32([1, 2, 3])
    right = x - (np.abs(x) + w if taken else np.exp(x) * w)
    np.testing.assert_allclose(
        evaluate(program, {"x": x, "c": np.array(taken)})["y"], right, rtol=1e-6
    )


def test_a_loop_stacks_the_values_that_it_gathers(tmp_path: Path) -> None:
    inputs = [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [2])]
    outputs = [onnx.ValueInfoProto(name=n) for n in ("c2", "s2", "scan")]
    nodes = [
        helper.make_node("Identity", ["c"], ["c2"]),
        helper.make_node("Relu", ["s"], ["s2"]),
        helper.make_node("Relu", ["s"], ["scan"]),
    ]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    node = helper.make_node("Loop", ["n", "", "x"], ["a", "b"], name="scan", body=body)
    made = model([node], [value("x", [2])], ["a", "b"], {"n": np.array(3)})
    program = load(saved(made, tmp_path)).program
    verify(program)
    found = evaluate(program, {"x": np.float32([-1, 2])})
    np.testing.assert_array_equal(found["b"], np.float32([[0, 2]] * 3))


# Large tensors.


def test_large_tensors_are_read_once_into_aligned_arrays(tmp_path: Path) -> None:
    weights = {
        f"w{i}": np.random.default_rng(i).standard_normal(1000 + i).astype(np.float32)
        for i in range(5)
    }
    weights["small"] = np.arange(3, dtype=np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    file = read_onnx(saved(model(nodes, [value("x", [2])], ["y"], weights), tmp_path))
    assert list(file.initializers) == list(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(file.initializers[name], array)
        assert array.nbytes < 1024 or file.initializers[name].ctypes.data % 64 == 0
    assert len(file.head) < 2000


@pytest.mark.parametrize("field", ["float_data", "int64_data"])
def test_tensors_may_be_written_as_lists_of_numbers(field: str, tmp_path: Path) -> None:
    made = relu()
    kind, numbers = (
        (TensorProto.FLOAT, [0.5] * 500)
        if field == "float_data"
        else (TensorProto.INT64, range(500))
    )
    made.graph.initializer.append(helper.make_tensor("w", kind, [500], list(numbers)))
    np.testing.assert_array_equal(read_onnx(saved(made, tmp_path)).initializers["w"], list(numbers))


def test_loading_takes_no_second_copy_of_the_weights(tmp_path: Path) -> None:
    size = 64 << 20
    path = saved(
        model(
            [helper.make_node("Relu", ["x"], ["y"])],
            [value("x", [2])],
            ["y"],
            {"w": np.zeros(size // 4, np.float32)},
        ),
        tmp_path,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = load(path)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert made.program.constants["w"].array.nbytes == size
    assert grown < 1.3 * size  # the test itself has held several copies before


def test_the_digest_of_a_model_follows_its_weights_and_bounds(tmp_path: Path) -> None:
    plain = load(saved(relu(["n", 3]), tmp_path)).digest
    assert load(saved(relu(["n", 3]), tmp_path, "again.onnx")).digest == plain
    assert load(tmp_path / "model.onnx", {"n": (1, 5)}).digest != plain
    assert load(saved(relu(["n", 4]), tmp_path, "other.onnx")).digest != plain


# Older versions.


def test_softmax_before_version_13_normalises_all_dims_from_its_axis_on(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Softmax", ["x"], ["y"])], [value("x", [2, 3, 4])], ["y"], opset=11
    )
    call = load(saved(made, tmp_path)).program.main.body[0].expr
    assert isinstance(call, OpCall)
    assert (call.attr("axis"), call.attr("flatten")) == (1, 1)


def test_the_light_models_are_there() -> None:
    assert len(list(LIGHT.glob("light_*.onnx"))) == 9
