"""A policy of Rammer, Welder or Roller is added as one line of `POLICIES` in its room, or passed in
as a function.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer import rammer, roller, welder
from explorer.compiler.options import Options
from explorer.errors import BadOption
from explorer.rammer.policy import POLICIES as RAMMING
from explorer.rammer.wavefront import op_by_op
from explorer.roller.named_policies import POLICIES as ROLLING
from explorer.roller.policy import candidates
from explorer.welder.options import POLICIES as WELDING
from tests.architecture.conftest import Shell
from tests.architecture.house import drawn, knob
from tests.architecture.literal import behind
from widgets.session.session import Session

SKIP = "tests/data/tiny_skip.onnx"


def in_order(facts: Any) -> Any:
    """One operator after the other."""
    return op_by_op(facts)


def alone(kernels: Sequence[Any], facts: Any) -> Sequence[Any]:
    """Nothing is joined."""
    return kernels


def first_found(kernel: Any, device: Any, env: Any, sizes: Any, top_k: int) -> Iterator[Any]:
    """The first legal tiles, whatever they cost."""
    return candidates(kernel, device, env, sizes, top_k)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(behind(RAMMING), "in-order", f"{__name__}.in_order")
    monkeypatch.setitem(behind(WELDING), "alone", f"{__name__}.alone")
    monkeypatch.setitem(behind(ROLLING), "first-found", f"{__name__}.first_found")


@explorer.trace
def model(x: explorer.tensor("float32", "n", 19), w: explorer.tensor("float32", 19, 23)):  # type: ignore[no-untyped-def,valid-type]
    y = x @ w
    return enp.exp(y - enp.max(y, axis=1, keepdims=True))


def test_all_three_compile_by_name_and_give_the_same_values() -> None:
    options = Options(
        rammer=rammer.Options(policy="in-order"),
        welder=welder.Options(policy="alone"),
        roller=roller.Options(policy="first-found"),
    )
    c, plain = explorer.compile(model, options=options, check=True), explorer.compile(model)
    assert len(c.program.kernel_calls) >= len(plain.program.kernel_calls)
    for rows in (1, 13):
        inputs = c.random_inputs({"n": rows})
        (got,), (want,) = c.run(inputs).values(), plain.run(inputs).values()
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_the_house_offers_them() -> None:
    session = Session(explorer.compile(model))
    assert "in-order" in knob(session, "policy")["labels"]
    assert "alone" in knob(session, "fusion")["labels"]
    assert "in-order" in drawn(session, "policies")
    more = session.answer("picture", {"room": "policies", "op": -1})["controls"]["more"]
    assert "in-order" in more[0][2]
    hand = session.answer("hand", {})
    assert "alone" in hand["policies"]
    for name, label in (("policy", "in-order"), ("fusion", "alone")):
        at = knob(session, name)["labels"].index(label)
        session.answer("turn", {"knob": name, "index": at, "label": label})
        assert knob(session, name)["labels"][knob(session, name)["now"]] == label


def test_the_shell_takes_them_by_name(shell: Shell) -> None:
    for setting in ("rammer.policy=in-order", "welder.policy=alone", "roller.policy=first-found"):
        assert shell("compile", SKIP, "--set", setting)
    assert "in-order" in shell("ram", SKIP, "--policy", "in-order")
    with pytest.raises(BadOption, match="in-order"):
        rammer.Options(policy="in order")
