"""Exports whose sizes are parameters compute what the compilation computes, for all sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, IronworksError
from explorer.ops.interpreter.frame import bind_sizes
from explorer.portable.c_text import expression
from explorer.portable.portable_program import Formula
from explorer.portable.symbolic import symbolic
from explorer.portable.write import Exported
from tests.portable.c_build import ADDRESSES, Library, built, require_compiler, run
from tests.portable.cases import assert_close, compiled, from_onnx, one_thread
from tests.strategies.onnx.symbolic import graphs

SIZES = (1, 2, 7, 33, 130)


@pytest.fixture(autouse=True)
def compiler() -> None:
    require_compiler()


def exported(c: explorer.Compilation, folder: Path) -> Exported:
    return explorer.export(c, folder / "out", sizes="any")


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ("tiny_bert", "small_looped_lstm", "small_moe", "tiny_llama"))
def test_a_model_runs_at_all_sizes(name: str, tmp_path: Path) -> None:
    c = compiled(name)
    library = Library(exported(c, tmp_path))
    for size in SIZES:
        sizes = {n: size if n != "batch" else min(size, 3) for n in c.hint}
        inputs = c.random_inputs(sizes)
        assert_close(library.run(inputs, [*sizes.values()]), c.executable.run(inputs))


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(5000, 5020))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    case = graphs.of((seed, 1), seed)
    c = from_onnx(case.model, tmp_path)
    try:
        library = Library(exported(c, tmp_path))
    except BadOption as problem:
        assert "needs Python while it runs" in problem.sentence or "which only Python does" in (
            problem.sentence
        )
        return
    for feeds in case.feeds:
        try:
            expected = c.executable.run(feeds)
        except IronworksError:
            continue  # these sizes break a relation, or are out of bounds
        sizes = bind_sizes(c.executable.program, feeds)
        dims = [sizes[name] for name in c.hint] if library.written.program.symbols.bounds else []
        assert_close(library.run(feeds, dims), expected)


def test_loops_and_branches_have_parameters_too(tmp_path: Path) -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", "rows", 5), steps: explorer.tensor("int64")):  # type: ignore[no-untyped-def,valid-type]
        y, n = x, steps
        while n > 0:
            if y.sum() < 100:
                y = y * 2 + x
            else:
                y = y - x.mean(axis=0)
            n = n - 1
        return y

    c = explorer.compile(explorer.load(model), options=one_thread())
    library = Library(exported(c, tmp_path))
    for rows in SIZES:
        x = np.random.default_rng(rows).standard_normal((rows, 5)).astype(np.float32)
        inputs = {"x": x, "steps": np.array(6)}
        assert_close(library.run(inputs, [rows]), c.executable.run(inputs))


def test_sizes_that_are_not_possible_are_faults(tmp_path: Path) -> None:
    model = explorer.load("zoo:tiny_bert", bounds={"batch": (1, 4)})
    c = explorer.compile(model, options=one_thread())
    library = Library(exported(c, tmp_path))
    assert [*c.hint] == ["batch", "seq"]
    inputs = c.random_inputs({"batch": 1, "seq": 2})
    assert library.call("arena_bytes", 5, 2) == 0 and library.call("arena_bytes", 4, 2) > 0
    sentences = {dims: library.fault(library.result(inputs, dims)[0]) for dims in ((0, 2), (1, 0))}
    assert sentences[0, 2] == "batch is 1 or more, at most 4"
    assert sentences[1, 0] == "seq is 1 or more, at most 512"


def test_zero_elements_where_the_bounds_allow_it(tmp_path: Path) -> None:
    model = explorer.load("zoo:tiny_bert", bounds={"batch": (0, 4), "seq": (1, 64)})
    c = explorer.compile(model, options=one_thread())
    library = Library(exported(c, tmp_path))
    for batch in (0, 1):
        inputs = c.random_inputs({"batch": batch, "seq": 5})
        assert_close(library.run(inputs, [batch, 5]), c.executable.run(inputs))


def test_the_main_program_takes_sizes_and_no_address_is_wrong(tmp_path: Path) -> None:
    c = compiled("tiny_bert")
    written = exported(c, tmp_path)
    inputs = c.random_inputs({"batch": 2, "seq": 9})
    expected = c.executable.run(inputs)
    shapes = {name: array.shape for name, array in expected.items()}
    results = run(built(written, *ADDRESSES), written, inputs, more=("2", "9"), shapes=shapes)
    assert_close(results, expected)


def test_the_plan_holds_formulas() -> None:
    data = symbolic(compiled("tiny_bert")).to_dict()
    assert [s[0] for s in data["symbols"]] == ["batch", "seq"]
    assert data["inputs"][0]["shape"] == ["batch", "seq"]
    assert "batch*seq" in str(data["ends"])


def test_formulas_in_c() -> None:
    from explorer.ir.dims import ceil_div, evaluate_dim, floor_div, simplify, symbol, sympy

    a, b = symbol("a"), symbol("b")
    dims = [a * b + 3, ceil_div(a + b, 4), floor_div(a - 9, 2), a**3, sympy.Max(a, b - 2, 1),
            sympy.Min(7, a), sympy.Mod(a, 5), floor_div(a * b, b + 1)]  # fmt: skip
    names = {"a": "a", "b": "b"}
    python = {"floor_div": lambda x, y: x // y, "greatest": max, "least": min}
    for dim in map(simplify, dims):
        for sizes in ({"a": 3, "b": 4}, {"a": 17, "b": 1}):
            value = eval(expression(dim, names), {**python, **sizes})
            assert value == evaluate_dim(dim, sizes)
    number = Formula(12, a * b) + 4
    assert (int(number), str(number.dim)) == (16, "a*b + 4")
    assert str((2 * Formula(3, a)).dim) == "2*a"


def test_workers_have_fixed_sizes(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="sizes cannot be parameters of an export with 2 threads"):
        explorer.export(compiled("tiny_bert"), tmp_path / "out", sizes="any", threads=2)
    with pytest.raises(BadOption, match='or the word "any"'):
        explorer.export(compiled("tiny_bert"), tmp_path / "out", sizes="all")
