"""A pass whose expressions are of other types than their bindings is refused at its own step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.compiler.options import Options
from explorer.errors import BadPass
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, OpCall, Var, View
from explorer.ir.kernel import Read, rewrite
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.passes import registry

Rule = Callable[[Binding], object]


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())
    yield


def replacing(op: str, rule: Rule) -> Callable[[Binding, Program], Any]:
    def rewritten(binding: Binding, program: Program) -> Any:
        is_it = isinstance(binding.expr, OpCall) and binding.expr.op == op
        return rule(binding) if is_it else None

    return rewritten


def args(b: Binding) -> tuple[Var | None, ...]:
    assert isinstance(b.expr, OpCall)
    return b.expr.args


def tanh(*shape: int | str) -> Any:
    return explorer.trace(lambda x: enp.exp(enp.tanh(x)))(explorer.tensor("float32", *shape))


def product(*dims: int | str) -> Any:
    of = explorer.tensor
    return explorer.trace(lambda x, z: enp.exp(x * z))(of("float32", 4), of("float32", *dims))


WRONG: dict[str, tuple[Any, str, Rule, str]] = {
    "no broadcast": (
        product(1000, 4),
        "Mul",
        lambda b: OpCall("Identity", (args(b)[0],)),
        "the binding 'mul' is float32[1000, 4], and Identity(x) is float32[4]",
    ),
    "no broadcast of rows": (
        product("n", 4),
        "Mul",
        lambda b: OpCall("Identity", (args(b)[0],)),
        "the binding 'mul' is float32[n, 4], and Identity(x) is float32[4]",
    ),
    "permuted": (
        tanh(4, 5),
        "Tanh",
        lambda b: OpCall("Transpose", args(b)),
        "the binding 'tanh' is float32[4, 5], and Transpose(x) is float32[5, 4]",
    ),
    "of another element": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("Cast", args(b), (("to", "float64"),)),
        "the binding 'tanh' is float32[4], and Cast(x) is float64[4]",
    ),
    "a number": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("Size", args(b)),
        "the binding 'tanh' is float32[4], and Size(x) is int64[]",
    ),
    "reduced": (
        tanh("n", 4),
        "Tanh",
        lambda b: OpCall("ReduceSum", args(b), (("keepdims", 0),)),
        "the binding 'tanh' is float32[n, 4], and ReduceSum(x) is float32[]",
    ),
    "unproved": (
        tanh("n", 4),
        "Tanh",
        lambda b: OpCall("Slice", args(b), (("starts", (0,)), ("ends", (2,)), ("axes", (0,)))),
        "Slice(x) is float32[min(2, n), 4] (min(2, n) == n is not proved)",
    ),
    "two arguments": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("Relu", args(b) * 2),
        "the binding 'tanh': Relu at 'tanh': takes 1 arguments, and gets 2",
    ),
    "no argument": (tanh(4), "Tanh", lambda b: OpCall("Relu", ()), "needs its argument 'X'"),
    "a misspelt attribute": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("LeakyRelu", args(b), (("aplha", 0.5),)),
        "LeakyRelu has no attribute 'aplha': none of its rules reads it; did you mean 'alpha'?",
    ),
    "no operator": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("Tahn", args(b)),
        "the binding 'tanh' calls 'Tahn', which is no operator; did you mean",
    ),
    "attributes in a dict": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("Elu", args(b), {"alpha": 0.5}),  # type: ignore[arg-type]
        "the attributes of 'tanh' are a tuple of pairs: ((\"axis\", 1),)",
    ),
    "an argument alone": (
        tanh(4),
        "Tanh",
        lambda b: OpCall("Relu", args(b)[0]),  # type: ignore[arg-type]
        "returned a Var where the arguments of 'tanh' are a tuple of Var",
    ),
    "a longer view": (
        product("n", 4),
        "Mul",
        lambda b: View(args(b)[0]),  # type: ignore[arg-type]
        "the binding 'mul' is float32[n, 4], a view of 'x': float32[4]",
    ),
    "read as another type": (
        tanh("n", 4),
        "Tanh",
        lambda b: OpCall("Relu", (Var("x", Tensor((4, 4), "float32")),)),
        "the binding 'tanh' reads 'x' as float32[4, 4], and it is float32[n, 4]",
    ),
}


@pytest.mark.parametrize(("model", "op", "rule", "words"), WRONG.values(), ids=WRONG)
def test_a_result_of_another_type_than_its_binding_is_refused_at_its_step(
    model: Any, op: str, rule: Rule, words: str
) -> None:
    explorer.rewrite("mine", after="fold constants")(replacing(op, rule))
    with pytest.raises(BadPass) as refused:
        explorer.compile(model)
    assert refused.value.sentence.startswith("the pass 'mine' ")
    assert words in refused.value.sentence
    assert refused.value.where == "mine"


def test_kernels_that_read_past_their_arguments_are_refused() -> None:
    def shorter(program: Program) -> Program:
        first = program.main.body[0]
        longer = tuple(replace(v, type=Tensor((4, 8), "float32")) for v in first.vars)
        return program.with_body((replace(first, vars=longer), *program.main.body[1:]))

    with pytest.raises(BadPass, match="the pass 'shorter' returned a program that is not well"):
        explorer.compile(tanh(4, 4), options=Options(passes=(("legalise to kernels", shorter),)))


def test_kernels_that_read_past_symbolic_extents_are_refused() -> None:
    def later(program: Program) -> Program:
        first = program.main.body[0]
        assert isinstance(first.expr, KernelCall)
        kernel = first.expr.kernel

        def shifted(read: Read) -> Read:
            row, *others = read.index
            assert isinstance(row, Affine)
            return replace(read, index=(row + 1, *others))

        computes = tuple(replace(c, expr=rewrite(c.expr, shifted)) for c in kernel.computes)
        call = replace(first.expr, kernel=replace(kernel, computes=computes))
        return program.with_body((replace(first, expr=call), *program.main.body[1:]))

    with pytest.raises(BadPass, match=r"the kernel of 'tanh' reads 'x' at 1 for n=1, and it has 1"):
        explorer.compile(tanh("n", 4), options=Options(passes=(("legalise to kernels", later),)))


RIGHT: dict[str, tuple[Any, str, Rule]] = {
    "like it": (tanh("n", 4), "Tanh", lambda b: OpCall("Relu", args(b))),
    "with an attribute": (
        tanh("n", 4),
        "Tanh",
        lambda b: OpCall("LeakyRelu", args(b), (("alpha", 0.5),)),
    ),
    "an argument of the whole type": (
        product("n", 4),
        "Mul",
        lambda b: OpCall("Identity", (args(b)[1],)),
    ),
    "a shape by attribute": (
        tanh("n", 4),
        "Tanh",
        lambda b: OpCall("Reshape", args(b), (("shape", b.var.tensor.dims),)),
    ),
}


@pytest.mark.parametrize(("model", "op", "rule"), RIGHT.values(), ids=RIGHT)
def test_a_result_of_its_type_is_accepted(model: Any, op: str, rule: Rule) -> None:
    explorer.rewrite("mine", after="fold constants")(replacing(op, rule))
    c = explorer.compile(model)
    assert c.snapshot("mine").after is not c.snapshot("mine").before
    inputs = c.random_inputs()
    np.testing.assert_allclose(
        c.run(inputs)["output"],
        explorer.evaluate(c.snapshot("mine").after, inputs)["output"],
        rtol=1e-5,
    )
