"""A model in PyTorch: the operators of its file called one by one, in the fastest form here.

Forms differ in two ways: operators as in the file, or fused to single PyTorch calls
(`torch_fusion`); images with channels first, or last. A recurrent model of the zoo also has a form
with one operator for each layer (`model_forms`). Compiled forms also have weights that the compiler
may change (Inductor's freezing: packed, and batch norms folded into them). Each form is timed and
the fastest is used, so that a race is against PyTorch at its best.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import IronworksError, UnsupportedOperator
from explorer.frontends.model import Model
from explorer.ir.calls import Branch, Loop, OpCall, Var
from explorer.ir.program import Binding, Function, Program
from explorer.ops.interpreter.frame import bind_sizes
from explorer.ops.record import Site
from explorer.tuning.peers.model_forms import fastest_first, forms, specialise
from explorer.tuning.peers.torch_fusion import fuse
from explorer.tuning.peers.torch_operators import OPERATORS

torch: Any = import_module("torch")

Tensors = Sequence[Any]
MOST_CALLS = 1000  # more take the compiler minutes
Outputs = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class PeerCall:
    """One call.

    The slots that it reads (None: an omitted argument), those that it writes, and those without
    later readers.
    """

    run: Callable[..., Any]
    reads: tuple[int | None, ...]
    writes: tuple[int, ...]
    dead: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PeerFunction:
    """A function's steps over numbered slots, of which the first are its parameters."""

    steps: tuple[PeerCall, ...]
    frame: tuple[Any, ...]  # every slot before the run: constants, else None
    parameters: int
    outputs: tuple[int, ...]

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the outputs; a value is released after its last reader."""
        slots = [*arguments, *self.frame[self.parameters :]]
        return run_steps(self.steps, slots, self.outputs)


def run_steps(
    steps: tuple[PeerCall, ...], slots: list[Any], outputs: tuple[int, ...]
) -> tuple[Any, ...]:
    """Run steps over slots and return the outputs; slots without later readers are cleared."""
    for step in steps:
        returned = step.run(*(None if i is None else slots[i] for i in step.reads))
        results = returned if isinstance(returned, tuple) else (returned,)
        for slot, value in zip(step.writes, results):
            slots[slot] = value
        for slot in step.dead:
            slots[slot] = None
    return tuple(slots[i] for i in outputs)


class Frozen(torch.nn.Module):  # type: ignore[misc]
    """A plan as a module with its weights, whose values PyTorch's compiler may use."""

    def __init__(self, plan: PeerFunction) -> None:
        """Register the plan's weights as buffers."""
        super().__init__()
        self.steps, self.outputs, self.names = plan.steps, plan.outputs, []
        for n, weight in enumerate(plan.frame[plan.parameters :]):
            name = "" if weight is None else f"weight{n}"
            self.names.append(name)
            if name:
                self.register_buffer(name, weight)
        self.eval()

    def forward(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the outputs of the plan."""
        weights = (getattr(self, name) if name else None for name in self.names)
        return run_steps(self.steps, [*arguments, *weights], self.outputs)


def torch_plan(program: Program, channels_last: bool = False) -> PeerFunction:
    """Return the model of an imported program as PyTorch calls.

    Its weights are shared and not copied, except weights of convolutions that are put channels
    last.

    Raises:
        UnsupportedOperator: an operator has no PyTorch call here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the warning that the weights are read-only
        weights = {n: torch.from_numpy(c.array) for n, c in program.constants.items()}
    if channels_last:
        for name in convolution_weights(program):
            if name in weights:
                weights[name] = weights[name].to(memory_format=torch.channels_last)
    return _plan(program, program.main, weights)


def convolution_weights(program: Program) -> set[str]:
    """Return the weights of two-dimensional convolutions."""
    return {
        b.expr.args[1].name
        for _, b in program.bindings()
        if isinstance(b.expr, OpCall) and b.expr.op == "Conv" and b.expr.args[1] is not None
        if len(b.expr.attr("kernel_shape") or (0, 0)) == 2  # type: ignore[arg-type]
    }


def _plan(program: Program, function: Function, weights: Mapping[str, Any]) -> PeerFunction:
    slots = {p.name: n for n, p in enumerate(function.params)}
    last: dict[str, int] = {}
    for n, binding in enumerate(function.body):
        for var in binding.reads:
            last[var.name] = n
            if var.name in weights:
                slots.setdefault(var.name, len(slots))
        for var in binding.vars:
            slots.setdefault(var.name, len(slots))
            last.setdefault(var.name, n)
    for var in function.outputs:
        slots.setdefault(var.name, len(slots))
    never_cleared = {v.name for v in function.outputs} | set(weights)
    steps = []
    for n, binding in enumerate(function.body):
        names = dict.fromkeys(v.name for v in (*binding.reads, *binding.vars))
        dead = tuple(slots[v] for v in names if last[v] == n and v not in never_cleared)
        run, reads = _call(program, binding, weights)
        places = tuple(None if v is None else slots[v.name] for v in reads)
        steps.append(PeerCall(run, places, tuple(slots[v.name] for v in binding.vars), dead))
    frame = tuple(weights.get(name) for name in slots)
    outputs = tuple(slots[v.name] for v in function.outputs)
    return PeerFunction(tuple(steps), frame, len(function.params), outputs)


def _call(
    program: Program, binding: Binding, weights: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Var | None, ...]]:
    match binding.expr:
        case OpCall(op, args, attrs):
            if op not in OPERATORS:
                _refuse(binding, op)
            values = tuple(
                program.constants[a.name].array if a and a.name in weights else None for a in args
            )
            site = Site(
                op, _where(binding), args, dict(attrs), program.env, values, len(binding.vars)
            )
            return OPERATORS[op](site), args
        case Branch(cond, then, orelse, args):
            arms = [_plan(program, program.function(f), weights) for f in (orelse, then)]
            return (lambda c, *arm_args: arms[bool(c)](*arm_args)), (cond, *args)
        case Loop(body, trip, cond, state, args, 0):
            plan = _plan(program, program.function(body), weights)
            return _loop(plan, len(state)), (trip, cond, *state, *args)
    _refuse(binding, type(binding.expr).__name__)


def _loop(body: PeerFunction, states: int) -> Callable[..., Any]:
    def run(trip: Any, cond: Any, *values: Any) -> tuple[Any, ...]:
        state, captured = list(values[:states]), values[states:]
        limit = np.inf if trip is None else int(trip)
        goes = True if cond is None else bool(cond)
        n = 0
        while goes and n < limit:
            more, *state = body(torch.tensor(n), torch.tensor(goes), *state, *captured)
            goes, n = bool(more), n + 1
        return tuple(state)

    return run


def _where(binding: Binding) -> str:
    return next(iter(sorted(binding.origin)), binding.vars[0].name)


def _refuse(binding: Binding, what: str) -> NoReturn:
    name = _where(binding)
    raise UnsupportedOperator(f"{what} at {name!r} has no PyTorch call here", where=name)


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
