"""Operators of the user's own: in traced functions and in files, never out of date, and a bad one
ends in one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer
from explorer.errors import BadOperator, BadOption, IronworksError, UnsupportedOperator
from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Read
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.types import Tensor
from explorer.ops import RECORDS, user_operators
from explorer.ops.elementwise import call, unary
from explorer.ops.record import OperatorRecord, Site
from explorer.passes.unchecked import Unchecked
from tests.two_inputs import two_inputs

HALF = 0.5
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(3, 8)


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    yield
    for name in tuple(user_operators.user_operators()):
        user_operators.forget(name)


def squareplus(half: float = 0.5) -> OperatorRecord:
    def body(site: Any, x: Any, dtype: str) -> Any:
        root = call("sqrt", call("add", call("mul", x, x), 4.0, dtype=dtype))
        return call("mul", call("add", x, root), half, dtype=dtype)

    def reference(attrs: Any, args: Any) -> Any:
        return (args[0] + np.sqrt(args[0] ** 2 + 4)) * args[0].dtype.type(half)

    return unary("Squareplus", body, reference)


def traced(function: Callable[..., Any]) -> Any:
    @explorer.trace
    def model(x: explorer.tensor("float32", "n", 8)):  # type: ignore[valid-type]
        return function(x) + 1

    return model


def test_an_operator_runs_on_arrays_and_in_a_traced_function() -> None:
    function = explorer.operator(squareplus())
    np.testing.assert_allclose(function(X), (X + np.sqrt(X * X + 4)) / 2)
    c = explorer.compile(traced(function), check=True)
    found = next(iter(c.run({"x": X}).values()))
    np.testing.assert_allclose(found, function(X) + 1, rtol=1e-6)
    assert all(s.checked is not False and not isinstance(s.checked, str) for s in c.snapshots)
    assert "Squareplus" in [s.op for s in c.model.program.sources]
    assert not c.program.library_calls


def test_an_operator_registered_again_takes_the_place_of_the_first() -> None:
    for half in (0.5, 2.0, 0.25, 2.0):
        function = explorer.operator(squareplus(half))
        c = explorer.compile(traced(function))
        want = (X + np.sqrt(X * X + 4)) * half + 1
        np.testing.assert_allclose(next(iter(c.run({"x": X}).values())), want, rtol=1e-5)


def half_of() -> float:
    return HALF


def test_an_edited_global_of_an_operator_gives_no_stale_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def body(site: Any, x: Any, dtype: str) -> Any:
        return call("mul", x, half_of(), dtype=dtype)

    record = unary("Scaled", body, lambda attrs, args: args[0] * np.float32(half_of()))
    model = traced(explorer.operator(record))
    for half in (0.5, 3.0, 0.5, 8.0):
        monkeypatch.setattr(sys.modules[__name__], "HALF", half)
        found = next(iter(explorer.compile(model).run({"x": X}).values()))
        np.testing.assert_allclose(found, X * half + 1, rtol=1e-6)


def test_an_operator_that_has_not_changed_is_remembered() -> None:
    model = traced(explorer.operator(squareplus()))
    explorer.compile(model)
    explorer.operator(squareplus())
    assert all(s.cached for s in explorer.compile(model).snapshots)


def test_a_file_names_an_operator_by_its_domain(tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    made = two_inputs("Squareplus", "lecture")
    del made.graph.node[0].input[1:]
    made.graph.node[0].output[0] = "product"
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    path.write_bytes(made.SerializeToString())
    with pytest.raises(UnsupportedOperator, match="operator domain 'lecture'"):
        explorer.load(str(path))
    function = explorer.operator(squareplus(), domain="lecture")
    a, b = X[:, :3], np.ones(3, np.float32)
    found = explorer.compile(str(path)).run({"a": a, "b": b})["y"]
    np.testing.assert_allclose(found, np.maximum(function(a) + b, 0), rtol=1e-6)
    explorer.operator(squareplus(), domain="another")
    with pytest.raises(UnsupportedOperator, match="operator domain 'lecture'"):
        explorer.load(str(path))


def rules(**changed: Any) -> OperatorRecord:
    return replace(squareplus(), **changed)


def _raise(*_: Any) -> Any:
    raise KeyError("nowhere\n" + "x" * 4000)


def _leave(*_: Any) -> Any:
    raise SystemExit(1)


def _nothing(*_: Any) -> Any:
    return None


def _no_kernel(low: Any) -> None:
    nest = low.nest("bad")
    nest.map("y", low.result, lambda axes: "x")


def _other_shape(low: Any) -> None:
    squareplus().lower(low)
    binding = low.bindings.pop()
    assert isinstance(binding.expr, KernelCall)
    kernel = binding.expr.kernel
    wrong = replace(kernel, computes=kernel.computes * 2, outputs=("nobody",))
    low.bindings.append(replace(binding, expr=replace(binding.expr, kernel=wrong)))


BAD = {
    "deduce raises": (rules(deduce=_raise), "failed in its rule 'deduce': KeyError"),
    "deduce leaves": (rules(deduce=_leave), "failed in its rule 'deduce': SystemExit"),
    "deduce gives nothing": (
        rules(deduce=_nothing),
        "'deduce', returned None, not 1 annotation in",
    ),
    "deduce gives a list": (
        rules(deduce=lambda site: [site.tensor(0)]),
        "'deduce', returned a list, not 1 annotation in",
    ),
    "deduce gives two": (
        rules(deduce=lambda site: (site.tensor(0), site.tensor(0))),
        "'deduce', returned 2 annotations, not 1 annotation in",
    ),
    "deduce gives half a dim": (
        rules(deduce=lambda site: (Tensor((1.5, 8), "float32"),)),  # type: ignore[arg-type]
        "'deduce', returned the dim 1.5 (a float): a dim is an integer, or an expression",
    ),
    "deduce gives a name": (
        rules(deduce=lambda site: (Tensor(("n", 8), "float32"),)),  # type: ignore[arg-type]
        "'deduce', returned the dim 'n' (a str): a dim is",
    ),
    "deduce gives no dtype": (
        rules(deduce=lambda site: (Tensor(site.shape(), "flaot32"),)),
        "'deduce', returned the dtype 'flaot32'; did you mean 'float32'?",
    ),
    "deduce gives fewer dims": (
        rules(deduce=lambda site: (Tensor(site.shape()[1:], "float32"),)),
        "failed in its rule 'body': ValueError: 'x' of rank 2 is read along 1 axes",
    ),
    "lower raises": (rules(lower=_raise), "failed in its rule 'lower': KeyError"),
    "lower binds nothing": (rules(lower=_nothing), "'lower', does not bind"),
    "lower writes words": (rules(lower=_no_kernel), "'lower', bound an invalid kernel"),
    "lower makes no kernel": (rules(lower=_other_shape), "'lower', bound an invalid kernel"),
}


@pytest.mark.parametrize(("record", "words"), BAD.values(), ids=BAD)
def test_a_bad_operator_ends_in_one_sentence_and_harms_nothing(
    record: OperatorRecord, words: str
) -> None:
    function = explorer.operator(squareplus())
    model = traced(function)
    before = explorer.compile(model)
    good = before.run({"x": X})
    explorer.operator(record)
    with pytest.raises(IronworksError) as refused:
        explorer.compile(model if "deduce" not in words else traced(function))
    assert words in refused.value.sentence and "'Squareplus'" in refused.value.sentence
    assert "\n" not in refused.value.sentence and len(refused.value.sentence) < 600
    assert isinstance(refused.value, BadOperator)
    np.testing.assert_equal(before.run({"x": X}), good)
    explorer.operator(squareplus())
    again = explorer.compile(model)
    assert all(s.cached for s in again.snapshots)
    np.testing.assert_equal(again.run({"x": X}), good)


def test_a_reference_that_is_wrong_is_told_on_arrays_and_by_check() -> None:
    for bad in (_raise, _nothing):
        function = explorer.operator(rules(reference=bad))
        with pytest.raises(BadOperator, match="'reference'"):
            function(X)
    function = explorer.operator(rules(reference=lambda attrs, args: args[0] * 3))
    c = explorer.compile(traced(function), until="LEGALIZED", check=True)
    wrong = [s.name for s in c.snapshots if isinstance(s.checked, str)]
    assert wrong == ["legalise to kernels"]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("Relu", "is an OperatorRecord, not str"),
        (replace(squareplus(), name="Relu"), "'Relu' is an operator of ONNX"),
        (replace(squareplus(), name="a b"), "an operator's name is a word"),
        (replace(squareplus(), name=""), "an operator's name is a word"),
        (replace(squareplus(), name=None), "an operator's name is a word"),  # type: ignore[arg-type]
        (replace(squareplus(), lower=None), "has no rule 'lower'"),  # type: ignore[arg-type]
    ],
    ids=("text", "of ONNX", "two words", "empty", "no name", "no lowering"),
)
def test_what_is_no_operator_is_not_registered(record: Any, words: str) -> None:
    known = dict(RECORDS)
    with pytest.raises(BadOption, match=words):
        explorer.operator(record)
    assert dict(RECORDS) == known
    with pytest.raises(BadOption, match="the domain of"):
        explorer.operator(squareplus(), domain="\x1b[31m")
    with pytest.raises(BadOption, match="no operator of your own is named 'Relu'"):
        user_operators.forget("Relu")


BROKEN_REFERENCES = {
    "raises": (lambda a, x: _raise(), "failed in its rule 'reference': KeyError"),
    "gives nothing": (_nothing, "returned None, not an array"),
    "a list": (lambda a, x: x[0].tolist(), "returned a list, not an array"),
    "a number": (lambda a, x: x[0].sum(), "returned float32[], and its rule 'deduce' says"),
    "of another element": (
        lambda a, x: x[0].astype("float64"),
        "returned float64[2, 4], and its rule 'deduce' says float32[2, 4]",
    ),
}


@pytest.mark.parametrize(("bad", "words"), BROKEN_REFERENCES.values(), ids=BROKEN_REFERENCES)
def test_check_says_in_a_sentence_that_a_reference_cannot_be_compared(bad: Any, words: str) -> None:
    function = explorer.operator(rules(reference=bad))
    rows = explorer.trace(lambda x: function(x))(explorer.tensor("float32", "n", 4))
    c = explorer.compile(rows, until="LEGALIZED", check=True)
    (step,) = (s for s in c.snapshots if s.name == "legalise to kernels")
    assert isinstance(step.checked, Unchecked)
    assert step.checked.startswith("could not be checked, because the operator 'Squareplus'")
    assert words in step.checked and words in str(c) and str(step.checked) in str(step)
    assert "WRONG" not in str(c) and "True" not in str(step)


def test_a_shape_rule_of_another_shape_than_the_reference_cannot_be_checked() -> None:
    def shorter(site: Site) -> tuple[Tensor, ...]:
        return (Tensor((site.shape()[0] - 1, *site.shape()[1:]), site.dtype()),)

    function = explorer.operator(rules(deduce=shorter))
    rows = explorer.trace(lambda x: function(x))(explorer.tensor("float32", 3, 4))
    c = explorer.compile(rows, until="TYPED", check=True)
    reasons = {str(s.checked) for s in c.snapshots if isinstance(s.checked, Unchecked)}
    assert reasons and all("returned float32[3, 4]" in r and "float32[2, 4]" in r for r in reasons)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_are_checked_in_traces_and_in_files(dtype: str, tmp_path: Path) -> None:
    function = explorer.operator(squareplus(), domain="mine")
    graph = explorer.trace(lambda x: function(x))(explorer.tensor(dtype, "n", 4))
    c = explorer.compile(graph, until="LEGALIZED", check=True)
    changed = [s for s in c.snapshots if s.after is not s.before]
    assert changed and all(s.checked is True for s in changed)
    element = getattr(onnx.TensorProto, dtype.upper())
    x = onnx.helper.make_tensor_value_info("x", element, ["n", 4])
    y = onnx.helper.make_tensor_value_info("y", element, None)
    node = onnx.helper.make_node("Squareplus", ["x"], ["y"], domain="mine", name="s")
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("mine", 1)]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=9
    )
    onnx.save(model, tmp_path / "half.onnx")
    c = explorer.compile(str(tmp_path / "half.onnx"), until="LEGALIZED", check=True)
    assert {s.checked for s in c.snapshots if s.after is not s.before} == {True}


def test_a_wrong_kernel_of_half_floats_is_found() -> None:
    function = explorer.operator(rules(reference=lambda attrs, args: args[0] * 3))
    graph = explorer.trace(lambda x: function(x))(explorer.tensor("float16", "n", 4))
    c = explorer.compile(graph, until="LEGALIZED", check=True)
    wrong = [s.name for s in c.snapshots if isinstance(s.checked, str)]
    assert wrong == ["legalise to kernels"]


def shifted(by: int, factor: int = 1, fill: float | None = None) -> OperatorRecord:
    """Rows that are read `by` rows further down."""

    def lower(low: Any) -> None:
        nest, x = low.nest("shifted"), low.site.arg(0)

        def body(axes: Any) -> Read:
            return Read(nest.tensor(x, "x"), (var(axes[0].name) * factor + by, at(axes[1])), fill)

        nest.map("y", low.result, body)

    return rules(lower=lower, name="Shifted")


def at(axis: Any) -> Affine:
    return var(axis.name)


@pytest.mark.parametrize("rows", [12, "n"])
@pytest.mark.parametrize(
    "record", [shifted(1), shifted(-1), shifted(0, 2), shifted(6_000_000)], ids=range(4)
)
def test_reads_outside_are_refused_of_symbolic_extents_too(
    record: OperatorRecord, rows: int | str
) -> None:
    function = explorer.operator(record)
    model = explorer.trace(lambda x: function(x))(explorer.tensor("float32", rows, 4))
    with pytest.raises(BadOperator, match=r"bound an invalid kernel: .*reads 'x' at .* elements"):
        explorer.compile(model)


@pytest.mark.parametrize("record", [shifted(0), shifted(1, 1, 0.0)], ids=["inside", "fill"])
def test_reads_inside_or_with_a_fill_are_accepted(record: OperatorRecord) -> None:
    function = explorer.operator(record)
    model = explorer.trace(lambda x: function(x))(explorer.tensor("float32", "n", 4))
    assert explorer.compile(model, until="LEGALIZED").program.main.outputs


def with_alpha() -> OperatorRecord:
    def body(site: Any, x: Any, dtype: str) -> Any:
        return call("mul", x, site.number("alpha", 1.0), dtype=dtype)

    def reference(attrs: Any, args: Any) -> Any:
        return args[0] * args[0].dtype.type(attrs.get("alpha", 1.0))

    return unary("Times", body, reference)


MISUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "a misspelt attribute": ((), {"aplha": 2.0}, "no attribute 'aplha': .*did you mean 'alpha'"),
    "another attribute": ((), {"gamma": 2.0}, "Times has no attribute 'gamma'"),
    "two arguments": ((X,), {}, "one argument, and is given 2"),
    "an attribute in words": ((), {"alpha": "2"}, "alpha must be a number, and is '2'"),
    "an array as attribute": ((), {"alpha": np.ones(2)}, r"'alpha' of 'Times' is array\(\[1"),
    "an object as attribute": ((), {"alpha": object()}, r"\(an object\): attributes are numbers"),
}


@pytest.mark.parametrize(("more", "attrs", "words"), MISUSED.values(), ids=MISUSED)
@pytest.mark.parametrize("way", ["arrays", "trace"])
def test_wrong_arguments_and_attributes_are_refused_everywhere(
    more: tuple[Any, ...], attrs: dict[str, Any], words: str, way: str
) -> None:
    function = explorer.operator(with_alpha())
    with pytest.raises(IronworksError, match=words):
        if way == "arrays":
            function(X, *more, **attrs)
        else:
            explorer.compile(traced(lambda x: function(x, *more, **attrs)), until="LEGALIZED")


def test_a_file_with_a_misspelt_attribute_is_refused(tmp_path: Path) -> None:
    explorer.operator(with_alpha(), domain="mine")
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4, 4]) for n in ("x", "y")
    )
    node = onnx.helper.make_node("Times", ["x"], ["y"], domain="mine", aplha=2.0)
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("mine", 1)]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=9
    )
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(IronworksError, match=r"no attribute 'aplha': .*did you mean 'alpha'"):
        explorer.compile(str(tmp_path / "m.onnx"))


def test_attributes_of_any_name_and_of_numpy_are_taken_and_none_is_the_default() -> None:
    function = explorer.operator(with_alpha())
    for alpha, factor in ((np.float32(2), 2), (np.array(2.0), 2), (2, 2), (None, 1)):
        np.testing.assert_array_equal(function(X, alpha=alpha), X * factor)
        c = explorer.compile(traced(lambda x, a=alpha: function(x, alpha=a)))
        np.testing.assert_allclose(next(iter(c.run({"x": X}).values())), X * factor + 1, 1e-6)

    def body(site: Any, x: Any, dtype: str) -> Any:
        chosen = "dims" if site.integer("types", 0) else "axis"  # read for some calls only
        return call("mul", x, site.number(chosen, 1.0), dtype=dtype)

    odd = explorer.operator(unary("Odd", body, lambda attrs, args: args[0]))
    explorer.compile(traced(lambda x: odd(x, types=1, dims=2.0, axis=3.0)), until="LEGALIZED")


def test_a_reference_may_return_a_tuple_of_one() -> None:
    function = explorer.operator(rules(reference=lambda attrs, args: (args[0],)))
    np.testing.assert_array_equal(function(X), X)


@pytest.mark.parametrize("name", SCALAR_FUNCTIONS)
def test_bool_inputs_are_computed_as_in_numpy_or_refused_by_the_rule(name: str) -> None:
    record = SCALAR_FUNCTIONS[name]

    def body(site: Any, x: Any, dtype: str) -> Any:
        return call(name, *(x,) * record.arity)

    to_bool = record.gives == "bool"
    function = explorer.operator(
        unary("B", body, lambda a, x: record.numpy(*(x[0],) * record.arity), to_bool=to_bool)
    )
    model = explorer.trace(lambda x: function(x))(explorer.tensor("bool", 4))
    if record.is_defined_on("bool"):
        x = np.array([True, False, True, True])
        y = explorer.compile(model).run({"x": x})["output"]
        np.testing.assert_array_equal(y, record.numpy(*(x,) * record.arity))
    else:
        with pytest.raises(
            BadOperator, match=rf"'{name}' is not defined on bool; it takes int8|float"
        ):
            explorer.compile(model)


WRONG_BODIES: dict[str, tuple[Callable[..., Any], str]] = {
    "no function": (lambda s, x, d: call("logp1", x), "'logp1' is not a scalar function; did you"),
    "no near function": (lambda s, x, d: call("zzz", x), "'zzz' is not a scalar function; there a"),
    "a number": (lambda s, x, d: 2.0, r"2.0 \(float\) is not an expression: call"),
    "nothing": (lambda s, x, d: None, r"None \(NoneType\) is not an expression"),
    "a string": (lambda s, x, d: call("exp", "x"), r"'x' \(str\) is not an expression"),
    "two dtypes": (
        lambda s, x, d: call("mul", x, 2.0, dtype="float64"),
        "'mul' takes arguments of one dtype, and has float32 and float64",
    ),
    "an integer function": (
        lambda s, x, d: call("bitnot", x),
        "'bitnot' is not defined on float32; it takes int8",
    ),
}


@pytest.mark.parametrize(("body", "words"), WRONG_BODIES.values(), ids=WRONG_BODIES)
def test_a_wrong_body_ends_in_a_sentence_that_names_it(body: Any, words: str) -> None:
    function = explorer.operator(unary("Wrong", body, lambda a, x: x[0]))
    with pytest.raises(BadOperator, match=f"in its rule 'body', .*{words}"):
        explorer.compile(traced(function))
