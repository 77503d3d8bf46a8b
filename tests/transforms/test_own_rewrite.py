"""A rewrite of one's own is a rule of one binding: it enters every pipeline under its name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.course import counterexample
from explorer.errors import BadPass
from explorer.ir.calls import Expr, OpCall
from explorer.ir.program import Binding, Program
from explorer.passes import registry
from explorer.transforms.rewrite import Rewrite

AFTER = "fold constants"
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())


@explorer.trace
def model(x: explorer.tensor("float32", "n", 3)):  # type: ignore[no-untyped-def,valid-type]
    return enp.relu(enp.relu(enp.relu(x))) + 1.0


def by_twos(op: str) -> Callable[[Binding, Program], Expr | None]:
    """relu(relu(x)) is relu(x): what was read first is read."""

    def rule(binding: Binding, program: Program) -> Expr | None:
        made = {b.var.name: b.expr for b in program.main.body}
        if not isinstance(binding.expr, OpCall) or binding.expr.op != op:
            return None
        inner = made.get(binding.expr.args[0].name)
        same = isinstance(inner, OpCall) and inner.op == op
        return OpCall(op, inner.args, ()) if same else None

    return rule


def test_it_is_applied_until_nothing_changes_and_stands_among_the_steps() -> None:
    explorer.rewrite("one relu", after=AFTER)(by_twos("Relu"))
    c = explorer.compile(model, check=True)
    step = c.snapshot("one relu")
    relus = [
        b.expr.args[0].name for b in step.after.main.body if getattr(b.expr, "op", "") == "Relu"
    ]
    assert step.checked is True and set(relus) == {"x"}
    np.testing.assert_array_equal(c.run({"x": X})["output"], np.maximum(X, 0) + 1)


def test_registered_again_it_takes_the_place_of_the_first_and_nothing_old_is_kept() -> None:
    explorer.rewrite("mine", after=AFTER)(by_twos("Tanh"))
    first = explorer.compile(model, until="typed").snapshot("mine")
    explorer.rewrite("mine", after=AFTER)(by_twos("Relu"))
    second = explorer.compile(model, until="typed").snapshot("mine")
    assert first.after is first.before and second.after is not second.before


def test_a_rule_that_never_ends_or_gives_no_expression_is_a_sentence() -> None:
    def swapping(binding: Binding, program: Program) -> Expr | None:
        if isinstance(binding.expr, OpCall) and binding.expr.op == "Add":
            return OpCall("Add", binding.expr.args[::-1], ())
        return None

    explorer.rewrite("swapping", after=AFTER)(swapping)
    with pytest.raises(BadPass, match="'swapping' failed: it still changed the program after 100"):
        explorer.compile(model, until="typed")
    explorer.rewrite("swapping", after=AFTER)(lambda binding, program: 3)  # type: ignore[arg-type,return-value]
    with pytest.raises(
        BadPass, match="the rule returned int, and must return an expression or None"
    ):
        explorer.compile(model, until="typed")


def test_a_wrong_rule_is_shown_the_smallest_program_that_it_breaks() -> None:
    found = counterexample(Rewrite(by_twos("Neg")), after=AFTER)
    assert found is not None and found.program.count("enp.negative") == 2
