"""The forms in which PyTorch may run a model, and the fastest of them here: what a user of PyTorch
would have written, in the memory format that suits it.

Forms differ in two ways: operators as the file has them, or those together that PyTorch has as one
call (`torch_fusion`); images with channels first, or last. A recurrent model of the zoo is also
given with one operator for each layer (`model_forms`). Compiled, also with weights that the
compiler may change (Inductor's freezing: packed, and batch norms folded into them). Each form is
timed and the fastest is kept, so that a race is against PyTorch at its best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.errors import IronworksError, UnsupportedOperator
from explorer.frontends.model import Model
from explorer.ir.calls import OpCall
from explorer.ir.program import Program
from explorer.ops.reference.bind import bind_sizes
from explorer.tuning.peers.model_forms import forms, in_order
from explorer.tuning.peers.torch.fusion import fused, settled
from explorer.tuning.peers.torch.peer import Frozen, Plan, torch, torch_plan, windows_of

MOST_CALLS = 1000  # that are compiled: more take the compiler minutes

Outputs = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Form:
    """A model that PyTorch runs: `run` gives its outputs for inputs that it holds."""

    name: str
    plan: Plan
    inputs: tuple[Any, ...]
    run: Outputs


def eager(model: Model, inputs: Mapping[str, np.ndarray]) -> Form:
    """The fastest form of one call an operator.

    Raises UnsupportedOperator where an operator has no PyTorch call here.
    """
    return in_order(_eager_forms(model, inputs))[0]


def compiled(model: Model, inputs: Mapping[str, np.ndarray]) -> Form:
    """The fastest form that PyTorch's compiler makes.

    Raises UnsupportedOperator where every form has more calls than it is given here.
    """
    torch._dynamo.reset()
    made = list(_eager_forms(model, inputs))
    few = [form for form in made if len(form.plan.steps) <= MOST_CALLS]
    if not few:
        calls = min(len(form.plan.steps) for form in made)
        raise UnsupportedOperator(
            f"{model.name} has {calls:,} calls; PyTorch's compiler is given {MOST_CALLS:,} at most"
        )
    return in_order(compiled_forms(in_order(few)))[0]


def _eager_forms(model: Model, inputs: Mapping[str, np.ndarray]) -> Iterator[Form]:
    for name, form in forms(model):
        for made in eager_forms(form, inputs):
            yield replace(made, name=f"{name}, {made.name}") if name else made


def eager_forms(model: Model, inputs: Mapping[str, np.ndarray]) -> Iterator[Form]:
    """Every form of one call an operator; the names say which."""
    given = tuple(torch.from_numpy(inputs[n]) for n in model.inputs)
    first = _as_exported(model.program, inputs)
    programs = {"fused": fused(first), "as exported": first}
    if _operators(programs["fused"]) == _operators(first):
        del programs["fused"]
    for name, program in programs.items():
        yield _eager(name, torch_plan(program), given)
        if windows_of(program):
            last = tuple(_channels_last(t) for t in given)
            yield _eager(f"{name}, channels last", torch_plan(program, True), last)


def _operators(program: Program) -> list[str]:
    return [b.expr.op for _, b in program.bindings() if isinstance(b.expr, OpCall)]


def _as_exported(program: Program, inputs: Mapping[str, np.ndarray]) -> Program:
    """With shapes worked out beforehand, where that can be done."""
    try:
        return settled(program, bind_sizes(program, inputs))
    except IronworksError:
        return program


def _channels_last(tensor: Any) -> Any:
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def _eager(name: str, plan: Plan, inputs: tuple[Any, ...]) -> Form:
    def run() -> tuple[Any, ...]:
        with torch.inference_mode():
            return plan(*inputs)

    return Form(name, plan, inputs, run)


def compiled_forms(ordered: Sequence[Form]) -> Iterator[Form]:
    """With dynamic shapes off: the fastest eager form, and the fastest of the other operators."""
    first = ordered[0]
    others = [f for f in ordered if _words(f) != _words(first)][:1]
    yield _compiled(first, "compiled", None)
    for form in (first, *others):
        yield _compiled(form, "frozen", {"freezing": True})


def _words(form: Form) -> str:
    return form.name.split(",")[0]


def _compiled(base: Form, name: str, options: dict[str, bool] | None) -> Form:
    """PyTorch freezes weights where it tracks no gradients, but not where it is told to infer."""
    module = torch.compile(Frozen(base.plan), dynamic=False, options=options)
    mode = torch.no_grad if options else torch.inference_mode

    def run() -> tuple[Any, ...]:
        with mode():
            found: tuple[Any, ...] = module(*base.inputs)
            return found

    return replace(base, name=f"{base.name}, {name}", run=run)
