"""A model in PyTorch: the operators of its file, called one by one on tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import Branch, Loop, OpCall, Var
from explorer.ir.program import Binding, Function, Program
from explorer.ops.site import Site
from explorer.tuning.peers.torch.operators import OPERATORS

torch: Any = import_module("torch")

Tensors = Sequence[Any]


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
