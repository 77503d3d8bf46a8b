"""Branches, loops, scans and recursion: the text on NumPy, recorded, and compiled, agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.errors import BadOption, DtypeError, ShapeError, TraceError
from explorer.frontends.python.trace import Traced
from explorer.ir.calls import Branch, FunctionCall, Loop, MatchCast
from explorer.ir.text.program_text import parse_program, print_program

tensor = explorer.tensor
Inputs = Mapping[str, np.ndarray]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def agrees(function: Traced, trials: Sequence[Inputs], bounds: Any = None) -> explorer.Model:
    """Eagerly, interpreted and compiled, with one compilation."""
    model = explorer.load(function, bounds)
    assert parse_program(print_program(model.program), model.program.constants) == model.program
    compiled = explorer.compile(model)
    for inputs in trials:
        wanted = function(**inputs)
        named = wanted if isinstance(wanted, dict) else dict(zip(model.outputs, _tuple(wanted)))
        for found in (explorer.evaluate(model.program, inputs), compiled.run(inputs)):
            assert list(found) == list(named)
            for name, value in named.items():
                assert found[name].shape == np.shape(value), name
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    return model


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def kinds(model: explorer.Model) -> list[str]:
    """The control flow in a program, in order."""
    found = (b.expr for _, b in model.program.bindings())
    return [type(e).__name__ for e in found if isinstance(e, (Branch, Loop, FunctionCall))]


# cond.


@explorer.trace
def branches(x: tensor("float32", "n", 3), w: tensor("float32", 3, 3)) -> Any:
    scale = w.sum()

    def then(a: Any) -> Any:
        inner = explorer.cond(a.max() > 1, lambda b: b @ w, lambda b: b * scale, a)
        return {"y": inner + x.shape[0], "z": 1.0}

    def orelse(a: Any) -> Any:
        return {"y": xp.tanh(a) - scale, "z": a.sum() / 2}

    return explorer.cond(x.sum() > 0, then, orelse, x)


def test_both_branches_and_one_within_another() -> None:
    w = floats(3, 3, seed=1)
    model = agrees(
        branches,
        [{"x": s * np.abs(floats(n, 3)), "w": w} for n in (1, 4) for s in (-1, 0.01, 3)],
    )
    assert kinds(model) == ["Branch", "Branch"]


def test_a_condition_that_is_known_is_decided_while_tracing() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n", 3)) -> Any:
        if x.shape[1] == 3 and x.shape[0] > 0 and x.shape != (x.shape[0], 4):
            return explorer.cond(x.ndim == 2, lambda a: a + 1, lambda a: a.sum(), x)
        raise AssertionError

    assert kinds(explorer.load(model)) == []


def test_branches_of_different_extents_give_an_extent_of_the_run() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n", 2)) -> Any:
        part = explorer.cond(x.sum() > 0, lambda a: a[:2], lambda a: a, x)
        return xp.concatenate([part * 2, x]), xp.arange(part.shape[0])

    traced = agrees(model, [{"x": s * np.abs(floats(n, 2))} for n in (1, 2, 5) for s in (1, -1)])
    cast = next(b for _, b in traced.program.bindings() if isinstance(b.expr, MatchCast))
    assert str(cast.var.type) == "float32[cond_0, 2]"  # both have two columns


# while_loop.


@explorer.trace
def collatz(k: tensor("int64"), x: tensor("float32", "n")) -> Any:
    def body(value: Any, steps: Any, total: Any) -> Any:
        value = explorer.cond(value % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, value)
        return value, steps + 1, total * 0.5 + value.astype("float32") * x

    return explorer.while_loop(lambda v, s, t: v > 1, body, k, 0, xp.zeros_like(x))


def test_a_loop_that_ends_where_its_data_says_and_one_of_no_step() -> None:
    model = agrees(collatz, [{"k": np.array(k), "x": floats(n)} for k in (1, 6, 7) for n in (1, 4)])
    assert sorted(kinds(model)) == ["Branch", "Loop"]


def test_one_value_of_state_is_given_back_as_it_is() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n")) -> Any:
        return explorer.while_loop(lambda v: xp.max(xp.abs(v)) > 0.1, lambda v: v / 2, x)

    agrees(model, [{"x": floats(5)}, {"x": np.zeros(2, np.float32)}])


def test_a_number_takes_the_dtype_that_a_step_gives_it() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n")) -> Any:
        return explorer.while_loop(
            lambda i, total: i < 3, lambda i, total: (i + 1, total + x.sum() * i), 0, 0.0
        )

    _, total = explorer.load(model).program.main.outputs
    assert str(total.type) == "float32[]"
    agrees(model, [{"x": floats(3)}])


def test_a_loop_that_is_traced_twice_keeps_the_functions_it_calls() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n")) -> Any:
        return explorer.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + total(x)), 0, 0.0)

    traced = agrees(model, [{"x": floats(n)} for n in (1, 5)])
    names = [f.name for f in traced.program.functions]
    assert len(set(names)) == len(names) == 5  # main, the body, total and its two branches


def test_loops_within_loops_see_what_is_around_them() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n"), k: tensor("int64")) -> Any:
        def outer(i: Any, total: Any) -> Any:
            def inner(j: Any, part: Any) -> Any:
                return j + 1, part + x * i + k.astype("float32")

            _, part = explorer.while_loop(lambda j, p: j < i, inner, 0, xp.zeros_like(x))
            return i + 1, total + part

        return explorer.while_loop(lambda i, t: i < k, outer, 0, x)

    agrees(model, [{"x": floats(3), "k": np.array(k)} for k in (0, 1, 4)])


# scan.


@explorer.trace
def rnn(xs: tensor("float32", "time", "batch", 3), w: tensor("float32", 3, 3)) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = xp.tanh(h @ w + x)
        return h, (h.sum(), h * 2)

    carry, (sums, rows) = explorer.scan(step, xp.zeros((xs.shape[1], 3), "float32"), xs)
    return {"carry": carry, "sums": sums, "rows": rows}


def test_a_scan_stacks_what_each_step_gives() -> None:
    w = floats(3, 3, seed=1)
    model = agrees(
        rnn,
        [{"xs": floats(t, b, 3), "w": w} for t, b in ((0, 1), (1, 2), (5, 3))],
        bounds={"time": (0, None)},
    )
    loop = next(b for _, b in model.program.bindings() if isinstance(b.expr, Loop))
    assert [str(v.type) for v in loop.vars] == [
        "float32[batch, 3]",
        "float32[time]",
        "float32[time, batch, 3]",
    ]


def test_a_scan_over_several_arrays_without_a_carry_and_one_that_counts() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n", 2), k: tensor("int64", "n")) -> Any:
        _, rows = explorer.scan(lambda c, row: (c, row["x"] * row["k"]), None, {"x": x, "k": k})
        total, _ = explorer.scan(lambda c, _: (c + x.sum(), None), 0.0, length=x.shape[0])
        return rows, total

    agrees(model, [{"x": floats(n, 2), "k": np.arange(n)} for n in (1, 4)])


# Functions that call themselves.


@explorer.function(result=tensor("float32"))
def total(x: tensor("float32", "n")) -> Any:
    half = x.shape[0] // 2
    return explorer.cond(
        x.shape[0] <= 1, lambda a: a.sum(), lambda a: total(a[:half]) + total(a[half:]), x
    )


@explorer.function(result=tensor("float32", "n", "n"))
def power(x: tensor("float32", "n", "n"), k: tensor("int64")) -> Any:
    def odd(x: Any, k: Any) -> Any:
        return power(x, k - 1) @ x

    def even(x: Any, k: Any) -> Any:
        half = power(x, k // 2)
        return half @ half

    def step(x: Any, k: Any) -> Any:
        return explorer.cond(k % 2 == 0, even, odd, x, k)

    one = xp.eye(x.shape[0], dtype="float32")
    return explorer.cond(k == 0, lambda x, k: one, step, x, k)


def test_the_sum_of_a_tree_by_halves() -> None:
    @explorer.trace
    def model(x: tensor("float32", "m")) -> Any:
        return total(x) + total(x[::2])

    traced = agrees(model, [{"x": floats(n)} for n in (1, 2, 7, 16)])
    assert kinds(traced).count("FunctionCall") == 4
    assert [f.name for f in traced.program.functions].count("total") == 1


def test_a_function_that_calls_itself_is_a_model_too() -> None:
    agrees(explorer.trace(total), [{"x": floats(n)} for n in (1, 6)])


def test_a_power_by_squaring() -> None:
    @explorer.trace
    def model(x: tensor("float32", "m", "m"), k: tensor("int64")) -> Any:
        return power(x, k)

    agrees(model, [{"x": floats(n, n) / 2, "k": np.array(k)} for n in (1, 3) for k in (0, 1, 6, 7)])


def test_a_function_of_run_time_sized_results_is_called_at_several_shapes() -> None:
    @explorer.function(result=tensor("float32", ndim=1))
    def positive(x: tensor("float32", "n")) -> Any:
        return x[x > 0]

    @explorer.trace
    def model(x: tensor("float32", "n"), y: tensor("float32", "n", 2)) -> Any:
        return positive(x) * 2, positive(y.ravel()).sum()

    agrees(model, [{"x": floats(n), "y": floats(n, 2)} for n in (1, 6)])


def test_a_function_without_a_declared_result_gives_what_its_body_gives() -> None:
    @explorer.function
    def twice(x: tensor("float32", "n")) -> Any:
        return xp.concatenate([x, x]), x.sum()

    @explorer.trace
    def model(x: tensor("float32", 4)) -> Any:
        return twice(twice(x)[0])

    first, _ = explorer.load(model).program.main.outputs
    assert str(first.type) == "float32[16]"


# Values of the run as extents.


@explorer.trace
def found(x: tensor("float32", "n")) -> Any:
    (at,) = xp.nonzero(x > 0)
    values, counts = xp.unique(xp.round(x), return_counts=True)
    return {
        "at": at,
        "part": xp.softmax(x[x > 0] * 2),
        "values": values,
        "inverse": xp.unique(x, return_inverse=True)[1],
        "counts": counts.sum(),
        "rows": xp.argwhere(x > 0),
        "flat": xp.flatnonzero(x),
        "chosen": xp.compress(x < 0, x) + xp.ones(xp.where(x < 0)[0].shape[0], "float32"),
    }


def test_extents_that_only_a_run_knows() -> None:
    agrees(found, [{"x": x} for x in (floats(1), floats(9), np.zeros(3, np.float32))])


def test_slices_at_places_of_the_run() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n", 2), k: tensor("int64")) -> Any:
        return x[k:], x[: k + 1, 0] * 2, xp.arange(k)

    agrees(model, [{"x": floats(5, 2), "k": np.array(k)} for k in (0, 2, 5)])


def test_a_match_cast_names_extents() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n"), k: tensor("int64", 2)) -> Any:
        rows, columns = explorer.match_cast(k, explorer.shape("rows", "columns"))
        table = explorer.match_cast(x, tensor("float32", "2*pairs")).reshape(rows, columns)
        return table + xp.zeros((rows, 1), "float32")

    with pytest.raises(ShapeError, match=r"'pairs'.*where it stands alone"):
        explorer.load(model)

    @explorer.trace
    def paired(x: tensor("float32", "n"), y: tensor("float32", "m")) -> Any:
        return x + explorer.match_cast(y, tensor("float32", "n"))

    agrees(paired, [{"x": floats(n), "y": floats(n)} for n in (1, 3)])
    with pytest.raises(ShapeError):
        explorer.compile(paired).run({"x": floats(3), "y": floats(4)})


def test_values_become_dims() -> None:
    @explorer.trace
    def model(x: tensor("float32", "n"), k: tensor("int64", 2)) -> Any:
        rows, columns = explorer.match_cast(k, explorer.shape("rows", "columns"))
        return xp.reshape(x, (rows, columns)) @ xp.ones((columns, 1), "float32")

    agrees(model, [{"x": floats(6), "k": np.array(k)} for k in ((2, 3), (6, 1))])


# What a trace refuses, in one sentence with its line.


def _loop_that_grows(x: Any) -> Any:
    return explorer.while_loop(lambda v: v.sum() < 9, lambda v: xp.concatenate([v, v]), x)


def _number(x: Any) -> Any:
    return float(x.sum())


REFUSED: dict[str, tuple[type[Exception], str, Any]] = {
    "if": (TraceError, "an if or a while needs the value.*cond", lambda x: x if x.sum() else 0),
    "float": (TraceError, r"float\(\)", _number),
    "int": (TraceError, r"int\(\)", lambda x: int(x[0])),
    "len": (TraceError, r"len\(\)", lambda x: x * len(x)),
    "range": (TraceError, "a range", lambda x: [x for _ in range(x.shape[0])]),
    "iteration": (TraceError, "explorer.scan", lambda x: sum(v for v in x)),
    "if of a dim": (TraceError, "explorer.cond", lambda x: x if x.shape[0] > 3 else 0),
    "numpy": (TraceError, "numpy.linalg.eig is not supported", lambda x: np.linalg.eig(x)),
    "assignment": (ShapeError, "are too many", lambda x: x.__setitem__((0,) * 9, 1)),
    "shapes": (
        ShapeError,
        r"inner is 1.*float32\[n, 1\] and float32\[3, 2\]",
        lambda x: x[:, None] @ np.ones((3, 2), "f4"),
    ),
    "broadcast": (ShapeError, "extents 4 and 3", lambda x: x[:1] * np.ones(4) + np.ones(3)),
    "axis": (ShapeError, "axis 2 is out of range", lambda x: x.sum(2)),
    "index": (ShapeError, "index 5 is out of range", lambda x: x.reshape(-1, 2)[:, 5]),
    "a branch's structure": (
        TraceError,
        "one branch returns a tuple of 2 and the other a value",
        lambda x: explorer.cond(x[0] > 0, lambda a: (a, a), lambda a: a, x),
    ),
    "a branch's dtype": (
        DtypeError,
        r"float32\[n\] and the other int32\[n\]",
        lambda x: explorer.cond(x[0] > 0, lambda a: a, lambda a: a.astype("int32"), x),
    ),
    "a branch's rank": (
        ShapeError,
        r"float32\[n\] and the other float32\[\]",
        lambda x: explorer.cond(x[0] > 0, lambda a: a, lambda a: a.sum(), x),
    ),
    "a condition of several": (
        ShapeError,
        "one bool",
        lambda x: explorer.cond(x > 0, lambda a: a, lambda a: a, x),
    ),
    "a state that grows": (
        ShapeError,
        r"float32\[n\] before a step and float32\[2\*n\]",
        _loop_that_grows,
    ),
    "a state's dtype": (
        DtypeError,
        r"int64\[\] before a step and float64\[\] after",
        lambda x: explorer.while_loop(lambda k: k < 3, lambda k: k + 0.5, np.int64(0)),
    ),
    "a scan's rows": (
        ShapeError,
        "equal length",
        lambda x: explorer.scan(lambda c, r: (c, r[0]), 0, (x, x[1:])),
    ),
    "nothing": (TraceError, "returns no array", lambda x: None),
    "a match_cast": (
        ShapeError,
        "never holds",
        lambda x: explorer.match_cast(x, tensor("float32", "n", 2)),
    ),
    "an undeclared result": (TraceError, "calls itself", lambda x: _endless(x)),
    "a value around": (TraceError, "pass it as an argument", lambda x: _reads_around(x)),
    "a value that leaks": (TraceError, "return it as a result", lambda x: _leaks(x)),
}  # fmt: skip


@explorer.function
def _endless(x: tensor("float32", "n")) -> Any:
    return _endless(x) + 1


def _reads_around(x: Any) -> Any:
    @explorer.function
    def inner(y: tensor("float32", "n")) -> Any:
        return y + x

    return inner(x)


def _leaks(x: Any) -> Any:
    kept: list[Any] = []
    explorer.cond(x[0] > 0, lambda a: kept.append(a + 1) or a, lambda a: a, x)
    return kept[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_program_says_is_one_sentence_with_its_line(name: str) -> None:
    kind, words, function = REFUSED[name]
    with pytest.raises(kind, match=words) as caught:
        explorer.load(explorer.trace(function), inputs={"x": tensor("float32", "n")})
    assert caught.type is kind
    if name != "nothing":
        assert "test_control_flow.py:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_call_that_does_not_fit_names_the_parameter() -> None:
    @explorer.trace
    def model(x: tensor("float32", 2, 3)) -> Any:
        return power(x, 2)

    with pytest.raises(ShapeError, match=r"test_control_flow\.py.*'x' must be"):
        explorer.load(model)


def test_a_dim_is_a_name_or_arithmetic_on_names() -> None:
    assert str(tensor("float32", "n // 2 + 1", "2*n", 3)) == "float32[floor(n/2) + 1, 2*n, 3]"
    for wrong in ("n +", "f(n)", "n.real", -1, 1.5, "'n'"):
        with pytest.raises(BadOption):
            tensor("float32", wrong)
    with pytest.raises(BadOption, match="no dtype"):
        tensor("complex256x", "n")


def test_a_trace_that_fails_leaves_nothing_behind() -> None:
    with pytest.raises(TraceError):
        explorer.load(explorer.trace(_number), inputs={"x": tensor("float32", "n")})
    model = explorer.load(explorer.trace(lambda x: x + 1), inputs={"x": tensor("float32", "n")})
    assert list(model.inputs) == ["x"]
    assert xp.sum(np.ones(3)) == 3
