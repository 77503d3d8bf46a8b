"""RNN, LSTM and GRU over static sequences and over those of symbolic length, by every stage."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.ops.interpreter.evaluate import evaluate
from tests.ops.one_operator import Case, check, proto, stages

random = np.random.default_rng(4)


def r(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32) * 0.5


def layer(
    gates: int, ways: int, steps: int = 5, batch: int = 2, width: int = 3, hidden: int = 4
) -> list[np.ndarray]:
    """Inputs, weights, recurrences and biases."""
    rows = gates * hidden
    return [r(steps, batch, width), r(ways, rows, width), r(ways, rows, hidden), r(ways, 2 * rows)]


def spoilt(gates: int, of: int, value: float, steps: int = 2) -> list[np.ndarray]:
    """A layer in which input `of` (0 is x, 2 is R) has an infinity; 0 * x spoils one gate."""
    made = layer(gates, 1, steps)
    made[1][0, 2 * 4 : 3 * 4, 1] = 0
    made[of].reshape(-1)[1] = value
    return made


LENGTHS = np.array([3, 5], np.int32)
CASES = [
    Case("LSTM", layer(4, 1), {"hidden_size": 4}, (1, 2, 3), (2,), outputs=3),
    Case("LSTM", layer(4, 1)[:3], {"hidden_size": 4}, (1, 2), outputs=3, note="no-bias"),
    Case("LSTM", layer(4, 1), {"hidden_size": 4}, outputs=3, note="weights-by-data"),
    Case("LSTM", layer(4, 1), {"hidden_size": 4, "direction": "reverse"}, (1, 2, 3), outputs=3),
    Case(
        "LSTM", layer(4, 2), {"hidden_size": 4, "direction": "bidirectional"}, (1, 2, 3), outputs=3
    ),
    Case(
        "LSTM",
        [*layer(4, 1), None, r(1, 2, 4), r(1, 2, 4)],
        {"hidden_size": 4},
        (1, 2, 3),
        outputs=3,
        note="state",
    ),
    Case("LSTM", layer(4, 1, steps=1), {"hidden_size": 4}, (1, 2, 3), outputs=1, note="one-step"),
    Case("GRU", layer(3, 1), {"hidden_size": 4, "linear_before_reset": 1}, (1, 2, 3), outputs=2),
    Case(
        "GRU",
        [*layer(3, 2), None, r(2, 2, 4)],
        {"hidden_size": 4, "linear_before_reset": 1, "direction": "bidirectional"},
        (1, 2, 3),
        outputs=2,
    ),
    Case("GRU", layer(3, 2), {"hidden_size": 4, "direction": "bidirectional"}, (1, 2), outputs=2),
    Case("RNN", layer(1, 2), {"hidden_size": 4, "direction": "bidirectional"}, (1, 2), outputs=2),
    Case(
        "RNN",
        layer(1, 1),
        {
            "hidden_size": 4,
            "activations": ["Affine"],
            "activation_alpha": [0.5],
            "activation_beta": [0.25],
        },
        outputs=2,
        note="affine",
    ),
    Case(
        "LSTM",
        [*layer(4, 2), LENGTHS, None, None, r(2, 12)],
        {"hidden_size": 4, "direction": "bidirectional"},
        outputs=3,
        note="lengths-peepholes",
    ),
    Case(
        "GRU",
        [*layer(3, 2), LENGTHS, r(2, 2, 4)],
        {"hidden_size": 4, "direction": "bidirectional"},
        outputs=2,
        note="lengths",
    ),
    Case(
        "LSTM",
        [*layer(4, 1), None, r(1, 2, 4), r(1, 2, 4)],
        {
            "hidden_size": 4,
            "clip": 0.3,
            "input_forget": 1,
            "activations": ["HardSigmoid", "Softsign", "Relu"],
        },
        outputs=3,
        note="clip-input-forget",
    ),
    Case("GRU", layer(3, 1), {"hidden_size": 4}, free=(2,), outputs=2, note="reset-before"),
    Case("GRU", layer(3, 1), {"hidden_size": 4}, (1, 2), (2, 5), outputs=2, note="loop"),
    Case("RNN", layer(1, 1), {"hidden_size": 4, "direction": "reverse"}, (1,), (5,), outputs=2),
    Case(
        "LSTM",
        [*layer(4, 2), LENGTHS, r(2, 2, 4), None, r(2, 12)],
        {"hidden_size": 4, "direction": "bidirectional"},
        free=(2, 5),
        outputs=3,
        note="loop-lengths",
    ),
    Case("LSTM", layer(4, 2), {"hidden_size": 4, "direction": "bidirectional"}, free=(5,)),
]


def ids(cases: list[Case]) -> list[str]:
    return [f"{n}-{c.name}" for n, c in enumerate(cases)]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_a_recurrent_layer_becomes_kernels_that_equal_onnxruntime(
    case: Case, tmp_path: Path
) -> None:
    check(case, tmp_path)


@pytest.mark.few(4)
@pytest.mark.parametrize("known", [(1, 2, 3), ()], ids=["known", "by-data"])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    ("op", "gates", "of"),
    [("LSTM", 4, 0), ("LSTM", 4, 2), ("GRU", 3, 0), ("GRU", 3, 2), ("RNN", 1, 2)],
)
def test_a_state_of_zeros_is_multiplied(
    op: str, gates: int, of: int, steps: int, known: tuple[int, ...], tmp_path: Path
) -> None:
    """0 times a gate that is NaN, or times an infinite weight, is NaN (onnxruntime clamps both)."""
    case = Case(op, spoilt(gates, of, np.inf, steps), {"hidden_size": 4}, known, outputs=2)
    onnx.save(proto(case), tmp_path / "case.onnx")
    feeds = {f"x{i}": x for i, x in enumerate(case.inputs) if i not in known}
    imported, *later = stages(tmp_path / "case.onnx")
    wanted = evaluate(imported, feeds)
    assert all(np.isnan(v).any() for v in wanted.values())
    for program in later:
        for name, found in evaluate(program, feeds).items():
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted[name]), name)
    found = explorer.compile(tmp_path / "case.onnx").run(feeds)
    for name, right in wanted.items():
        np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(right), name)


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
def test_no_step_leaves_the_state_as_it_was(
    op: str, gates: int, direction: str, lengths: bool, tmp_path: Path
) -> None:
    """onnxruntime divides by the number of steps, and ends."""
    ways = 1 + (direction == "bidirectional")
    given = [
        *layer(gates, ways, steps=0),
        np.zeros(2, np.int32) if lengths else None,
        r(ways, 2, 4),
    ]
    attrs = {"hidden_size": 4, "direction": direction}
    onnx.save(proto(Case(op, given, attrs, (1, 2, 3), outputs=2)), tmp_path / "m.onnx")
    compiled = explorer.compile(tmp_path / "m.onnx", check=True)
    feeds = {f"x{n}": x for n, x in enumerate(given) if x is not None and n not in (1, 2, 3)}
    found = compiled.run(feeds)
    assert found["y0"].shape == (0, ways, 2, 4)
    np.testing.assert_array_equal(found["y1"], given[5])
