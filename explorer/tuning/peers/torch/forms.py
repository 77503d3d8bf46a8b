"""Forms in which PyTorch may run a model, and the fastest of them here.

Forms differ in two ways: operators as in the file, or fused to single PyTorch calls (`fusion`);
images with channels first, or last. A recurrent model of the zoo also has a form with one operator
for each layer (`model_forms`). Compiled forms also have weights that the compiler may change
(Inductor's freezing: packed, and batch norms folded into them). Each form is timed and the fastest
is used, so that a race is against PyTorch at its best.
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
from explorer.tuning.peers.model_forms import fastest_first, forms
from explorer.tuning.peers.torch.fusion import fuse, specialise
from explorer.tuning.peers.torch.peer import (
    Frozen,
    PeerFunction,
    convolution_weights,
    torch,
    torch_plan,
)

MOST_CALLS = 1000  # more take the compiler minutes

Outputs = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A model that PyTorch runs: `run` returns its outputs for inputs that it holds."""

    name: str
    plan: PeerFunction
    inputs: tuple[Any, ...]
    run: Outputs


def eager(model: Model, inputs: Mapping[str, np.ndarray]) -> TorchModel:
    """Return the fastest form with one call an operator.

    Raises:
        UnsupportedOperator: an operator has no PyTorch call here.
    """
    return fastest_first(_eager_forms(model, inputs))[0]


def compiled(model: Model, inputs: Mapping[str, np.ndarray]) -> TorchModel:
    """Return the fastest form by PyTorch's compiler.

    Raises:
        UnsupportedOperator: every form has more calls than the compiler is given here.
    """
    torch._dynamo.reset()
    eager_candidates = list(_eager_forms(model, inputs))
    few = [form for form in eager_candidates if len(form.plan.steps) <= MOST_CALLS]
    if not few:
        calls = min(len(form.plan.steps) for form in eager_candidates)
        raise UnsupportedOperator(
            f"{model.name} has {calls:,} calls; PyTorch's compiler is given {MOST_CALLS:,} at most"
        )
    return fastest_first(compiled_forms(fastest_first(few)))[0]


def _eager_forms(model: Model, inputs: Mapping[str, np.ndarray]) -> Iterator[TorchModel]:
    for name, form in forms(model):
        for variant in eager_forms(form, inputs):
            yield replace(variant, name=f"{name}, {variant.name}") if name else variant


def eager_forms(model: Model, inputs: Mapping[str, np.ndarray]) -> Iterator[TorchModel]:
    """Yield every form with one call an operator, named by its properties."""
    tensors = tuple(torch.from_numpy(inputs[n]) for n in model.inputs)
    first = _as_exported(model.program, inputs)
    programs = {"fused": fuse(first), "as exported": first}
    if _operators(programs["fused"]) == _operators(first):
        del programs["fused"]
    for name, program in programs.items():
        yield _eager(name, torch_plan(program), tensors)
        if convolution_weights(program):
            last = tuple(_channels_last(t) for t in tensors)
            yield _eager(f"{name}, channels last", torch_plan(program, True), last)


def _operators(program: Program) -> list[str]:
    return [b.expr.op for _, b in program.bindings() if isinstance(b.expr, OpCall)]


def _as_exported(program: Program, inputs: Mapping[str, np.ndarray]) -> Program:
    """Return the program with static shapes, if possible."""
    try:
        return specialise(program, bind_sizes(program, inputs))
    except IronworksError:
        return program


def _channels_last(tensor: Any) -> Any:
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def _eager(name: str, plan: PeerFunction, inputs: tuple[Any, ...]) -> TorchModel:
    def run() -> tuple[Any, ...]:
        with torch.inference_mode():
            return plan(*inputs)

    return TorchModel(name, plan, inputs, run)


def compiled_forms(ordered: Sequence[TorchModel]) -> Iterator[TorchModel]:
    """Yield compiled forms, without dynamic shapes.

    These are the fastest eager form, and the fastest with the other operators.
    """
    first = ordered[0]
    others = [f for f in ordered if _words(f) != _words(first)][:1]
    yield _compiled(first, "compiled", None)
    for form in (first, *others):
        yield _compiled(form, "frozen", {"freezing": True})


def _words(form: TorchModel) -> str:
    return form.name.split(",")[0]


def _compiled(base: TorchModel, name: str, options: dict[str, bool] | None) -> TorchModel:
    """Compile a form; PyTorch freezes weights under no_grad, but not in inference mode."""
    module = torch.compile(Frozen(base.plan), dynamic=False, options=options)
    mode = torch.no_grad if options else torch.inference_mode

    def run() -> tuple[Any, ...]:
        with mode():
            outputs: tuple[Any, ...] = module(*base.inputs)
            return outputs

    return replace(base, name=f"{base.name}, {name}", run=run)
