"""PyTorch's loops and branches run in the program, and give what PyTorch gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import UnsupportedOperator
from explorer.ir.calls import Branch, Loop

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
Module: Any = torch.nn.Module

randn = torch.randn
BATCH = torch.export.Dim("batch", min=1, max=64)
STEPS = torch.export.Dim("steps", min=1, max=64)
ROWS, TIMES, NUMBER = {0: BATCH}, {0: STEPS, 1: BATCH}, {}  # type: ignore[var-annotated]
SIZES = (1, 2, 5)


def while_loop(*args: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop as of_torch

    return of_torch(*args)


def scan(*args: Any, **options: Any) -> Any:
    from torch._higher_order_ops.scan import scan as of_torch

    return of_torch(*args, **options)


def number(value: int, dtype: Any = torch.int64) -> Any:
    return torch.tensor(value, dtype=dtype)


class Bounded(Module):  # type: ignore[misc]
    """Until a sum is small, at most 20 times; the start is also read by the body."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        def going(state: Any, trip: Any) -> Any:
            return (state.abs().sum() > 0.5) & (trip < 20)

        def body(state: Any, trip: Any) -> Any:
            return torch.tanh(self.layer(state)) * 0.5 + x * 0.1, trip + 1

        return while_loop(going, body, (x, number(0)))


class OfSizes(Module):  # type: ignore[misc]
    """Numbers of Python's as states: the first is a constant, the other a size."""

    def forward(self, x: Any) -> Any:
        def body(i: Any, left: Any, y: Any) -> Any:
            return i + 2, left - 1, y * 2 + i

        i, _, y = while_loop(lambda i, left, y: left > 1, body, (0, x.shape[0], x))
        return y + i


class AllKinds(Module):  # type: ignore[misc]
    """int32, int64, bool and float states, of which two start as the same tensor."""

    def forward(self, x: Any, n: Any) -> Any:
        def going(i: Any, k: Any, on: Any, a: Any, b: Any) -> Any:
            return (i < n) & on

        def body(i: Any, k: Any, on: Any, a: Any, b: Any) -> Any:
            return i + 1, k * 3, k.sum() < 100, b.clone(), a + b

        k = torch.ones(2, dtype=torch.int64)
        start = (number(0, torch.int32), k, torch.tensor(True), x, x)
        return while_loop(going, body, start)


class LoopInLoop(Module):  # type: ignore[misc]
    """A triangle of trips, with tensors that the bodies make of numbers."""

    def forward(self, x: Any, n: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            def add(j: Any, z: Any) -> Any:
                return j + 1, z + j * torch.tensor([[1.0], [2.0]]).sum(0)

            _, y = while_loop(lambda j, z: j < i, add, (torch.tensor(0), y))
            return i + torch.tensor(1), y

        return while_loop(lambda i, y: i < n, body, (torch.tensor(0), x))


class BranchInLoop(Module):  # type: ignore[misc]
    """A branch in a branch in a loop, each side with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x: Any, n: Any) -> Any:
        def positive(y: Any) -> Any:
            return torch.cond(y.max() > 1, lambda y: y * 0.5, lambda y: self.left(y), (y,))

        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.cond(y.sum() > 0, positive, lambda y: self.right(y) + x, (y,))

        return while_loop(lambda i, y: i < n, body, (number(0), x))


class LoopInBranch(Module):  # type: ignore[misc]
    def forward(self, x: Any, n: Any) -> Any:
        def repeated(x: Any) -> Any:
            return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2), (number(0), x))[1]

        return torch.cond(x.sum() > 0, repeated, lambda x: x - torch.tensor(3.0), (x,))


class ScanInLoop(Module):  # type: ignore[misc]
    def forward(self, x: Any, h: Any, n: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            last, _ = scan(lambda h, row: (torch.tanh(h + row), h * row), h, x)
            return i + 1, last

        return while_loop(lambda i, h: i < n, body, (number(0), h))


class LoopInScan(Module):  # type: ignore[misc]
    """Of each row as many trips as its sum says."""

    def forward(self, x: Any, h: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            def body(k: Any, y: Any) -> Any:
                return k + 1, y * 0.5 + row

            _, h = while_loop(lambda k, y: k < row.sum(), body, (torch.tensor(0.0), h))
            return h, torch.cond(row.sum() > 0, lambda h: h * 2, lambda h: h - 1, (h,))

        return scan(step, h, x)


class Cells(Module):  # type: ignore[misc]
    """An LSTM over rows, of several states and results."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(3, 3)

    def forward(self, x: Any, h: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            h, c = self.cell(row, (state["h"], state["c"]))
            return {"h": h, "c": c, "n": state["n"] + 1}, (h.clone(), c.sum(), state["n"] * 2)

        return scan(step, {"h": h, "c": h * 0.5, "n": number(0)}, x)


class Backwards(Module):  # type: ignore[misc]
    """From the last of an inner dim to the first."""

    def forward(self, x: Any, h: Any) -> Any:
        return scan(lambda h, row: (torch.tanh(h + row), h * row), h, x, dim=1, reverse=True)


class NothingStacked(Module):  # type: ignore[misc]
    """Two arrays at once, of which only the state goes on."""

    def forward(self, x: Any, h: Any) -> Any:
        def step(h: Any, rows: Any) -> Any:
            return torch.tanh(h + rows[0] * rows[1]), []

        return scan(step, h, (x, x * 2))[0]


class Mapped(Module):  # type: ignore[misc]
    def forward(self, x: Any, h: Any) -> Any:
        from torch._higher_order_ops.map import map as of_torch

        return of_torch(lambda row, h: torch.tanh(row) * h, x, h)


class Sides(Module):  # type: ignore[misc]
    """Two results of a side; what is decided on is a size."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(randn(3))

    def forward(self, x: Any) -> Any:
        y = x * 2
        return torch.cond(
            x.shape[0] > 2, lambda x: (x + y, y * self.weight), lambda x: (x - y, y.clone()), (x,)
        )


def rows(*sizes: int) -> list[tuple[Any, ...]]:
    return [(randn(size, 3) * sign,) for size in sizes for sign in (1, -1)]


def counted(dtype: Any = torch.int64) -> list[tuple[Any, ...]]:
    """A batch of either sign, and a number of trips."""
    batches = (randn(2, 3).abs(), -randn(4, 3).abs())
    return [(x, number(n, dtype)) for n in (0, 1, 4) for x in batches]


def sequences() -> list[tuple[Any, ...]]:
    return [(randn(steps, 2, 3), randn(2, 3)) for steps in SIZES]


R, N, S = ({"x": ROWS}, {"x": ROWS, "n": NUMBER}, {"x": TIMES, "h": ROWS})
FLOWS: dict[str, tuple[Any, dict[str, Any], Any, tuple[int, int]]] = {
    "a condition and weights": (Bounded, R, lambda: [(torch.zeros(2, 3),), *rows(1, 4)], (1, 0)),
    "sizes as states": (OfSizes, R, lambda: rows(*SIZES), (1, 0)),
    "states of all kinds": (AllKinds, N, lambda: counted(torch.int32), (1, 0)),
    "a loop in a loop": (LoopInLoop, N, counted, (2, 0)),
    "branches in a loop": (BranchInLoop, N, counted, (1, 2)),
    "a loop in a branch": (LoopInBranch, N, counted, (1, 1)),
    "a scan in a loop": (
        ScanInLoop,
        {**S, "n": NUMBER},
        lambda: [(*s, number(n)) for n, s in enumerate(sequences())],
        (2, 0),
    ),
    "a loop and a branch in a scan": (LoopInScan, S, sequences, (2, 1)),
    "a scan of cells": (Cells, S, sequences, (1, 0)),
    "a scan backwards along an inner dim": (
        Backwards,
        {"x": {0: BATCH, 1: STEPS}, "h": ROWS},
        lambda: [(x.transpose(0, 1), h) for x, h in sequences()],
        (1, 0),
    ),
    "a scan that stacks nothing": (NothingStacked, S, sequences, (1, 0)),
    "a map": (Mapped, S, sequences, (1, 0)),
    "two results of a side": (Sides, R, lambda: rows(*SIZES), (0, 1)),
}


@pytest.mark.parametrize("flow", FLOWS)
def test_control_flow_of_pytorch_is_of_the_program_and_gives_what_pytorch_gives(flow: str) -> None:
    """One compilation, no trip back to Python, and no kernel that is not compiled."""
    torch.manual_seed(0)
    kind, dims, made, wanted = FLOWS[flow]
    module, trials = kind().eval(), made()
    with torch.no_grad():
        program = torch.export.export(module, trials[-1], dynamic_shapes=dims)
    model = explorer.load(program)
    bound = [binding.expr for f in model.program.functions for binding in f.body]
    assert tuple(sum(isinstance(e, k) for e in bound) for k in (Loop, Branch)) == wanted
    compiled = explorer.compile(model)
    for args in trials:
        named = dict(zip(model.inputs, (a.numpy() for a in args), strict=True))
        with explorer.counters.delta() as did:
            found = compiled.run(named)
        assert (did.interpreted_kernels, did.host_reads, did.library_calls) == (0, 0, 0)
        with torch.no_grad():
            given = torch.utils._pytree.tree_leaves(module(*args))
        for name, value in zip(model.outputs, given, strict=True):
            assert found[name].dtype == value.numpy().dtype
            np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-4, atol=1e-5)


def test_a_program_that_was_loaded_is_what_it_was() -> None:
    program = torch.export.export(LoopInLoop(), (randn(2, 3), number(3)), dynamic_shapes=N)
    before = str(program)
    explorer.load(program)
    assert str(program) == before


class InPlace(Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        y = x * 2

        def changed(x: Any) -> Any:
            y.add_(1)
            return x + y

        return torch.cond(x.sum() > 0, changed, lambda x: x - 1, (x,)), y


class Large(Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        numbers = [float(i) for i in range(300)]
        return torch.cond(x.sum() > 0, lambda x: x + torch.tensor(numbers).sum(), torch.sin, (x,))


class OfPython(Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return while_loop(lambda i, x: x.sum() < 9, lambda i, x: (7, x + 1), (0, x))[1]


class Local(Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.exp().add_(1) * 2, torch.sin, (x,))


class Twice(Module):  # type: ignore[misc]
    """torch.export 2.13 gives a program that adds the state to itself."""

    def forward(self, x: Any) -> Any:
        h = x[0] * 2
        return scan(lambda state, row: (torch.tanh(state + row) + h, state * 1), h, x)


class NoOperator(Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, torch.linalg.eigvals, lambda x: x[0] + 0j, (x,))


@pytest.mark.parametrize("kind", [Large, OfPython, Local])
def test_what_a_body_makes_for_itself(kind: Any) -> None:
    module = kind()
    with torch.no_grad():
        program = torch.export.export(module, (randn(3, 3),))
    compiled = explorer.compile(program)
    for x in (torch.ones(3, 3), -torch.ones(3, 3)):
        with torch.no_grad():
            wanted = module(x).numpy()
        (found,) = compiled.run(x.numpy()).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_two_loops_of_one_kind_are_told_apart() -> None:
    """By the origins of what their bodies compute."""
    module = LoopInLoop()
    program = torch.export.export(module, (randn(2, 3), number(3)), dynamic_shapes=N)
    found = explorer.load(program).program
    names = [s.name for s in found.sources]
    assert len(set(names)) == len(names)
    assert any(name.count(".") > 3 for name in names)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (InPlace, "true_graph_0 changes 'mul' in place"),
        (Twice, "scan has 'mul' as a state and as another operand"),
        (NoOperator, "exporter has no ONNX for this program"),
    ],
)
def test_what_a_body_may_not_do_is_one_sentence(kind: Any, sentence: str) -> None:
    with torch.no_grad():
        program = torch.export.export(kind(), (randn(3, 3),))
    with pytest.raises(UnsupportedOperator, match=sentence) as caught:
        explorer.load(program)
    assert "\n" not in str(caught.value)
