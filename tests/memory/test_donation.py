"""Outputs in the memory of inputs: the answer is what it would be anywhere else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer import np as xp
from explorer.errors import BadOption
from explorer.process.counters import counters

tensor = explorer.tensor
SIZES = (1, 7, 1031)
ONE, TWO = (explorer.Options(rammer=explorer.rammer.Options(threads=n)) for n in (1, 2))


def update(n: int, **given: Any) -> Any:
    @explorer.trace
    def step(w: tensor("float32", n), g: tensor("float32", n)) -> Any:
        return w - 0.25 * g

    return explorer.compile(step, **given)


def arrays(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w, g = rng.standard_normal((2, n)).astype(np.float32)
    g[::3], w[-1] = np.inf, np.nan
    return w, g


def made_by(run: Callable[[], object]) -> int:
    before = counters.arrays_made
    run()
    return int(counters.arrays_made - before)


@pytest.mark.parametrize("n", [0, *SIZES])
@pytest.mark.parametrize("options", [ONE, TWO], ids=["one unit", "two units"])
@pytest.mark.parametrize("check", [False, True])
def test_out_may_be_the_input_and_nothing_is_copied(n: int, options: Any, check: bool) -> None:
    c = update(n, options=options, check=check)
    w, g = arrays(n) if n else (np.zeros(0, np.float32), np.zeros(0, np.float32))
    for _ in range(3):
        wanted = w - np.float32(0.25) * g
        made = made_by(lambda: c.run({"w": w, "g": g}, out={"output": w}))
        assert made == (n == 1)  # one element is read at 0 and written at i: copied
        np.testing.assert_array_equal(w, wanted)


@pytest.mark.parametrize("shift", [-5, -1, 1, 3, 16])
@pytest.mark.parametrize("n", SIZES)
def test_out_may_overlap_an_input_in_part(n: int, shift: int) -> None:
    c = update(n)
    block = np.random.default_rng(1).standard_normal(n + 64).astype(np.float32)
    w, target = block[20 : 20 + n], block[20 + shift : 20 + shift + n]
    _, g = arrays(n)
    wanted = w - np.float32(0.25) * g
    around = block.copy()
    around[20 + shift : 20 + shift + n] = wanted
    assert c.run({"w": w, "g": g}, out={"output": target})["output"] is target
    np.testing.assert_array_equal(block, around)


def test_one_array_may_be_every_input_and_the_output() -> None:
    c, (a, _) = update(37), arrays(37)
    wanted = a - np.float32(0.25) * a
    assert made_by(lambda: c.run({"w": a, "g": a}, out={"output": a})) == 0
    np.testing.assert_array_equal(a, wanted)


def test_a_strided_or_transposed_array_is_updated_all_the_same() -> None:
    c, (_, g) = update(32), arrays(32)
    wide = np.random.default_rng(2).standard_normal((32, 3)).astype(np.float32)
    before = wide.copy()
    c.run({"w": wide[:, 1], "g": g}, out={"output": wide[:, 1]})
    np.testing.assert_array_equal(wide[:, 1], before[:, 1] - np.float32(0.25) * g)
    np.testing.assert_array_equal(wide[:, ::2], before[:, ::2])
    w = arrays(32)[0]
    expected = w[::-1] - np.float32(0.25) * g
    c.run({"w": w[::-1], "g": g}, out={"output": w})
    np.testing.assert_array_equal(w, expected)


def read_again(w: Any, g: Any) -> Any:
    return w - 0.25 * g, xp.flip(w, 0) * 2.0


def read_before(w: Any, g: Any) -> Any:
    scale = (w * w).sum()
    return w - scale * g, scale


def backwards(w: Any, g: Any) -> Any:
    return xp.flip(w, 0) - 0.25 * g


def shifted(w: Any, g: Any) -> Any:
    return xp.concatenate([w[1:], w[:1]]) - g, w + g


def itself(w: Any, g: Any) -> Any:
    return w, w * g


def smoothed(w: Any, g: Any) -> Any:
    mean = w.mean()
    return xp.exp(w - w.max()) * g, (w - mean) * g, mean


FORMS = (read_again, read_before, backwards, shifted, itself, smoothed)


@pytest.mark.few(11)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [2, 7, 1031])
@pytest.mark.parametrize("units", [1, 2])
def test_whatever_is_read_when_answers_are_those_of_memory_apart(
    form: Any, n: int, units: int
) -> None:
    def traced(w: tensor("float32", n), g: tensor("float32", n)) -> Any:
        return form(w, g)

    options = explorer.Options(
        rammer=explorer.rammer.Options(threads=units, brick_tasks=1),
        welder=explorer.welder.Options(enabled=units == 1),
    )
    c = explorer.compile(explorer.trace(traced), options=options)
    donating = explorer.compile(explorer.trace(traced), options=options, donate=("w", "g"))
    rng = np.random.default_rng(n)
    for _ in range(5):
        w, g = rng.standard_normal((2, n)).astype(np.float32)
        wanted = c.run({"w": w.copy(), "g": g.copy()})
        fitting = [name for name, a in wanted.items() if a.shape == w.shape]
        for name in fitting:
            for given in ("w", "g"):
                inputs = {"w": w.copy(), "g": g.copy()}
                found = c.run(inputs, out={name: inputs[given]})
                assert found[name] is inputs[given]
                for k, a in wanted.items():
                    np.testing.assert_array_equal(found[k], a, err_msg=f"{k}, {name} in {given}")
        found = donating.run({"w": w.copy(), "g": g.copy()})
        for k, a in wanted.items():
            np.testing.assert_array_equal(found[k], a, err_msg=f"{k}, donated")


def test_an_input_of_which_tasks_read_other_rows_is_not_written_over() -> None:
    @explorer.trace
    def less_a_sum(w: tensor("float32", 64, 48)) -> Any:
        return w - xp.flip(w, 0).sum(axis=1, keepdims=True)

    options = explorer.Options(
        rammer=explorer.rammer.Options(threads=2, brick_tasks=1),
        welder=explorer.welder.Options(enabled=False),
    )
    c = explorer.compile(less_a_sum, options=options, donate=("w",))
    assert c.donated == {"w": ""}


def test_two_outputs_in_one_array_are_refused() -> None:
    @explorer.trace
    def both(w: tensor("float32", 33), g: tensor("float32", 33)) -> Any:
        return w - g, w + g

    c, (w, g) = explorer.compile(both), np.random.default_rng(0).random((2, 33), np.float32)
    names = list(c.run({"w": w, "g": g}))
    kept = w.copy()
    with pytest.raises(BadOption, match="share memory"):
        c.run({"w": w, "g": g}, out={names[0]: w, names[1]: w})
    np.testing.assert_array_equal(w, kept)


def test_a_donated_input_holds_the_answer_and_others_stay_as_they_are() -> None:
    c = update(1031, donate=("w",))
    assert c.donated == {"w": "output"}
    w, g = arrays(1031)
    kept, wanted = g.copy(), w - np.float32(0.25) * g
    found = c.run({"w": w, "g": g})["output"]
    assert found is w
    np.testing.assert_array_equal(w, wanted)
    np.testing.assert_array_equal(g, kept)
    assert made_by(lambda: c.run({"w": w, "g": g})) == 0
    again = c.with_options(rammer=explorer.rammer.Options(threads=1))
    assert again.run({"w": w, "g": g})["output"] is w


def test_a_donated_input_that_cannot_be_written_stays() -> None:
    c = update(16, donate=("w",))
    block, g = np.random.default_rng(0).random((2, 17), np.float32)
    frozen = block[:16].copy()
    frozen.flags.writeable = False
    target = np.zeros(16, np.float32)
    for w, other, out in (
        (block[:16], block[1:], None),  # it shares bytes with an input that nobody gave away
        (frozen, g[:16], None),
        (block[:16], g[:16], target),  # out is said
    ):
        kept, also = w.copy(), other.copy()
        found = c.run({"w": w, "g": other}, out=None if out is None else {"output": out})
        np.testing.assert_array_equal(found["output"], kept - np.float32(0.25) * also)
        np.testing.assert_array_equal(w, kept)
        np.testing.assert_array_equal(other, also)
        assert not np.shares_memory(found["output"], w)


def test_what_no_output_can_take_over_is_said() -> None:
    @explorer.trace
    def product(a: tensor("float32", 8, 8), b: tensor("float32", 8, 8)) -> Any:
        return a @ b

    c = explorer.compile(product, donate=("a", "b"))
    assert c.donated == {"a": "", "b": ""}
    a, b = np.random.default_rng(0).random((2, 8, 8), np.float32)
    kept = a.copy()
    np.testing.assert_allclose(c.run({"a": a, "b": b})["output"], kept @ b, rtol=1e-5)
    np.testing.assert_array_equal(a, kept)
    with pytest.raises(BadOption, match="no input 'c' to donate"):
        explorer.compile(product, donate=("c",))


ADAM = ("x", "v", "h")  # a parameter and both moments, which a step writes anew


def adam(path: Path, count: int) -> Path:
    """One step of ONNX's Adam on a parameter."""
    value = helper.make_tensor_value_info
    names = ["r", "t", *ADAM[:1], "g", *ADAM[1:]]
    node = helper.make_node("Adam", names, ["x1", "v1", "h1"], domain="ai.onnx.preview.training")
    given = [value("r", TensorProto.FLOAT, []), value("t", TensorProto.INT64, [])]
    given += [value(n, TensorProto.FLOAT, [count]) for n in names[2:]]
    made = [value(n, TensorProto.FLOAT, [count]) for n in ("x1", "v1", "h1")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)]
    graph = helper.make_graph([node], "adam", given, made)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.parametrize("count", [1, 7, 1009, 70_001])
def test_a_step_of_adam_writes_over_the_parameter_and_both_moments(
    count: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    given = {n: rng.random(count).astype(np.float32) for n in ("x", "g", "v", "h")}
    given |= {"r": np.float32(0.01).reshape(()), "t": np.array(3, np.int64)}
    path = adam(tmp_path / "adam.onnx", count)
    plain, donating = explorer.compile(path), explorer.compile(path, donate=ADAM)
    assert len(plain.program.kernel_calls) == 1
    taken = ("x1", "v1", "h1") if count > 1 else ("", "", "")  # one element is copied
    assert donating.donated == dict(zip(ADAM, taken, strict=True))
    want = {n: a.copy() for n, a in plain.run(given).items()}
    for compiled, turn in ((donating, None), (plain, 0), (plain, 1)):
        mine = {n: a.copy() for n, a in given.items()}
        places = None if turn is None else np.roll(np.array(ADAM), turn)
        out = {} if places is None else {f"{n}1": mine[p] for n, p in zip(ADAM, places)}
        found = compiled.run(mine, out=out or None)
        for name, right in want.items():
            np.testing.assert_array_equal(found[name], right)


def rows_written(table: Any, at: Any, rows: Any) -> Any:
    return xp.setitem(table, at, rows)


def rows_read_before(table: Any, at: Any, rows: Any) -> Any:
    return xp.setitem(table, at, xp.take(table, at, axis=0) - rows)


def rows_read_after(table: Any, at: Any, rows: Any) -> Any:
    return xp.setitem(table, at, rows), xp.take(table, at, axis=0)


def rows_of_the_table(table: Any, at: Any, rows: Any) -> Any:
    return xp.setitem(table, at, xp.flip(table, 0)[: rows.shape[0]])


@pytest.mark.few(12)
@pytest.mark.parametrize(
    "form", [rows_written, rows_read_before, rows_read_after, rows_of_the_table]
)
@pytest.mark.parametrize(
    "rows, columns, count, dtype",
    [(7, 1, 1, "float32"), (13, 3, 5, "float32"), (1031, 16, 37, "float32"), (13, 3, 5, "int64")],
)
@pytest.mark.parametrize("units", [1, 2])
def test_a_donated_table_is_written_where_it_lies(
    form: Any, rows: int, columns: int, count: int, dtype: str, units: int
) -> None:
    def traced(
        table: tensor(dtype, rows, columns),
        at: tensor("int64", count),
        given: tensor(dtype, count, columns),
    ) -> Any:
        return form(table, at, given)

    options = explorer.Options(rammer=explorer.rammer.Options(threads=units, brick_tasks=1))
    model = explorer.trace(traced)
    c = explorer.compile(model, options=options)
    donating = explorer.compile(model, options=options, donate=("table",))
    first = c.program.main.output_names[0]
    # One element is no scatter; numbers of 64 bits may share memory with the places of rows.
    own = form in (rows_written, rows_read_before) and count > 1 and dtype == "float32"
    assert not own or donating.donated == {"table": first}
    rng = np.random.default_rng(rows)
    for _ in range(3):
        table = (100 * rng.standard_normal((rows, columns))).astype(dtype)
        if dtype == "float32":
            table[::2] = np.nan
        at = rng.integers(-rows, rows, count)  # some twice: the last one counts
        given = (100 * rng.standard_normal((count, columns))).astype(dtype)
        inputs = {"at": at, "given": given}
        wanted = c.run({"table": table.copy(), **inputs})
        other = table.copy()
        np.testing.assert_equal(c.run({"table": other, **inputs}, out={first: other}), wanted)
        before = counters.arrays_made
        found = donating.run({"table": table, **inputs})
        np.testing.assert_equal(found, wanted)
        if own:
            assert counters.arrays_made == before and found[first] is table


def test_a_run_over_its_inputs_asks_of_no_pair_of_arrays_whether_they_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"w{n}" for n in range(40)]

    def step(p: Any, g: Any) -> Any:
        return {n: p[n] - g for n in names}

    kind = tensor("float32", 19)
    model = explorer.trace(step)(dict.fromkeys(names, kind), kind)
    given = list(model.inputs)[: len(names)]
    c = explorer.compile(model, donate=given)
    draw = np.random.default_rng(0)
    inputs = {n: draw.random(19, np.float32) for n in model.inputs}
    wanted = [inputs[n] - inputs[list(inputs)[-1]] for n in given]

    def asked(*arrays: np.ndarray) -> bool:
        raise AssertionError("a pair was compared")

    monkeypatch.setattr(np, "may_share_memory", asked)
    found = list(c.run(inputs).values())
    assert {id(a) for a in found} == {id(inputs[n]) for n in given}
    for right, a in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, right)
