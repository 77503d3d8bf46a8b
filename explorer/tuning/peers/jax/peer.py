"""A model in JAX: the operators of its file as one function, jitted; its weights are arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.frontends.model import Model
from explorer.ir.calls import OpCall
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.ops.reference.bind import bind_sizes
from explorer.ops.site import Site
from explorer.tuning.peers.jax.operators import OPERATORS
from explorer.tuning.peers.model_forms import forms, in_order
from explorer.tuning.peers.torch.fusion import settled

jax: Any = import_module("jax")

MOST_CALLS = 2000  # that are compiled: more take XLA minutes
THREADS = "NPROC"  # from which XLA takes how many threads it starts on a CPU

Function = Callable[..., Any]  # weights by name, then inputs in order; outputs in order

_started: list[int] = []  # with how many threads JAX runs in this process: it starts them once


def started(threads: int) -> bool:
    """Whether JAX runs with so many threads here; it is started if it was not."""
    if not _started:
        before = os.environ.get(THREADS)
        os.environ[THREADS] = str(threads)
        try:
            jax.devices("cpu")
        finally:
            os.environ.pop(THREADS)
            if before is not None:
                os.environ[THREADS] = before
        _started.append(threads)
    return _started == [threads]


@dataclass(frozen=True, slots=True)
class Form:
    """A model that JAX runs: `run` gives its outputs, when they are there."""

    name: str
    run: Callable[[], tuple[np.ndarray, ...]]


def fastest(model: Model, inputs: Mapping[str, np.ndarray]) -> Form:
    """The fastest form of a model here. In an operator for a layer, its steps are scanned.

    Raises UnsupportedOperator where an operator has no JAX call here, or every form has more calls
    than XLA is given.
    """
    programs = {
        name or "jit": settled(form.program, bind_sizes(form.program, inputs))
        for name, form in forms(model)
    }
    few = {n: p for n, p in programs.items() if len(p.main.body) <= MOST_CALLS}
    if not few:
        calls = min(len(p.main.body) for p in programs.values())
        raise UnsupportedOperator(
            f"{model.name} has {calls:,} calls; XLA is given {MOST_CALLS:,} at most"
        )
    if any(map(_has_doubles, programs.values())):
        jax.config.update("jax_enable_x64", True)  # else JAX takes them as float32
    given = [inputs[n] for n in model.inputs]
    return in_order([Form(name, jitted(program, given)) for name, program in few.items()])[0]


def _has_doubles(program: Program) -> bool:
    values = [*program.main.params, *(v for b in program.main.body for v in b.vars)]
    return any(isinstance(v.type, Tensor) and v.type.dtype == "float64" for v in values)


def jitted(program: Program, inputs: Sequence[np.ndarray]) -> Callable[[], tuple[np.ndarray, ...]]:
    """A run of the model on these inputs, which waits for its outputs.

    Raises UnsupportedOperator for the first operator that has no JAX call here.
    """
    device = jax.devices("cpu")[0]
    function = jax.jit(jax_function(program))
    weights = {n: jax.device_put(c.array, device) for n, c in program.constants.items()}
    given = [jax.device_put(x, device) for x in inputs]

    def run() -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(y) for y in function(weights, *given))

    return run


def jax_function(program: Program) -> Function:
    """The main function of an imported program whose shapes are settled."""
    body = [(b, _call(program, b)) for b in program.main.body]
    params = [p.name for p in program.main.params]
    outputs = [v.name for v in program.main.outputs]

    def function(weights: Mapping[str, Any], *arguments: Any) -> tuple[Any, ...]:
        values = {**weights, **dict(zip(params, arguments))}
        for binding, (run, reads) in body:
            found = run(*(None if n is None else values[n] for n in reads))
            results = found if isinstance(found, tuple) else (found,)
            values |= {v.name: y for v, y in zip(binding.vars, results)}
        return tuple(values[n] for n in outputs)

    return function


def _call(program: Program, binding: Binding) -> tuple[Function, tuple[str | None, ...]]:
    where = next(iter(sorted(binding.origin)), binding.vars[0].name)
    match binding.expr:
        case OpCall(op, args, attrs) if op in OPERATORS:
            constants = program.constants
            values = tuple(
                constants[a.name].array if a and a.name in constants else None for a in args
            )
            site = Site(op, where, args, dict(attrs), program.env, values, len(binding.vars))
            return OPERATORS[op](site), tuple(None if a is None else a.name for a in args)
        case OpCall(op):
            _refuse(op, where)
        case _:
            _refuse(type(binding.expr).__name__, where)


def _refuse(what: str, where: str) -> NoReturn:
    raise UnsupportedOperator(f"{what} at {where!r} has no JAX call here", where=where)
