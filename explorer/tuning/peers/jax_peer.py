"""A model in JAX: the operators of its file as one jitted function with weights as arguments."""

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
from explorer.ops.interpreter.frame import bind_sizes
from explorer.ops.record import Site
from explorer.tuning.peers.jax_operators import OPERATORS
from explorer.tuning.peers.model_forms import fastest_first, forms, specialise

jax: Any = import_module("jax")

MOST_CALLS = 2000  # more take XLA minutes to compile
THREADS = "NPROC"  # variable with the number of XLA's CPU threads

Function = Callable[..., Any]  # weights by name, then inputs in order; outputs in order

_started: list[int] = []  # number of JAX's threads, which it starts once a process


def is_started(threads: int) -> bool:
    """Return True if JAX runs with so many threads in this process; start it if it does not run."""
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
class JaxModel:
    """A model that JAX runs: `run` waits for its outputs and returns them."""

    name: str
    run: Callable[[], tuple[np.ndarray, ...]]


def fastest(model: Model, inputs: Mapping[str, np.ndarray]) -> JaxModel:
    """Return the fastest form of a model here; in a form with layer operators, steps are scanned.

    Raises:
        UnsupportedOperator: an operator has no JAX call here, or every form has more than
            `MOST_CALLS` calls.
    """
    programs = {
        name or "jit": specialise(form.program, bind_sizes(form.program, inputs))
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
    arguments = [inputs[n] for n in model.inputs]
    return fastest_first(
        [JaxModel(name, jitted(program, arguments)) for name, program in few.items()]
    )[0]


def _has_doubles(program: Program) -> bool:
    values = [*program.main.params, *(v for b in program.main.body for v in b.vars)]
    return any(isinstance(v.type, Tensor) and v.type.dtype == "float64" for v in values)


def jitted(program: Program, inputs: Sequence[np.ndarray]) -> Callable[[], tuple[np.ndarray, ...]]:
    """Return a function that runs the model on these inputs and waits for its outputs.

    Raises:
        UnsupportedOperator: an operator has no JAX call here.
    """
    device = jax.devices("cpu")[0]
    function = jax.jit(jax_function(program))
    weights = {n: jax.device_put(c.array, device) for n, c in program.constants.items()}
    arguments = [jax.device_put(x, device) for x in inputs]

    def run() -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(y) for y in function(weights, *arguments))

    return run


def jax_function(program: Program) -> Function:
    """Return the main function of an imported program with static shapes."""
    body = [(b, _call(program, b)) for b in program.main.body]
    params = [p.name for p in program.main.params]
    outputs = [v.name for v in program.main.outputs]

    def function(weights: Mapping[str, Any], *arguments: Any) -> tuple[Any, ...]:
        values = {**weights, **dict(zip(params, arguments))}
        for binding, (run, reads) in body:
            returned = run(*(None if n is None else values[n] for n in reads))
            results = returned if isinstance(returned, tuple) else (returned,)
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
