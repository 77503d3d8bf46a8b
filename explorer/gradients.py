"""Derivatives of Python functions over arrays, as functions of the same arguments.

In a trace a gradient is one call of the program, which compiling expands; on arrays it is computed
at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

import explorer.gradient_programs  # noqa: F401  it tells the interpreter what a gradient means
from explorer.errors import BadOption, DtypeError, ShapeError, TraceError
from explorer.frontends.python.functions import IsolatedFunction
from explorer.frontends.python.syntax.stage_function import stage_function
from explorer.frontends.python.trace import Traced, trace
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.bodies import captures_of, finish, run_body
from explorer.frontends.python.tracing.emit import bind, traced
from explorer.frontends.python.tracing.frames import (
    attributed_to_call,
    calling_line,
    current_frame,
    is_tracing,
)
from explorer.frontends.python.tracing.structure import COMPLEX, Nest, Structure, flatten, rebuild
from explorer.ir.calls import Gradient
from explorer.ir.dtypes import is_float
from explorer.ir.types import Tensor, dtype_of
from explorer.ops.interpreter.evaluate import evaluate

Run = Callable[..., Any]
__all__ = ["evaluate", "grad", "value_and_grad", "vjp"]


Numbers = int | Sequence[int]


def value_and_grad(run: Run, argnums: Numbers = 0) -> Traced:
    """Return a function of the value of `run`, a float scalar, and its gradient by arguments.

    Args:
        run: The function to differentiate. It may return a tuple: the first value is
            differentiated, the others are returned unchanged.
        argnums: The position of one argument, or of several. The gradient has the structure of the
            argument, and is a tuple if `argnums` is one.

    An argument is an array, or tuples, lists and dicts of arrays. An argument that the value does
    not depend on has a gradient of zeros. The gradient by a complex array is complex: the
    derivative by its real part, plus 1j times that by its imaginary part.

    Raises:
        TraceError, DtypeError, ShapeError: The function cannot be differentiated; each names the
            line.
    """
    positions = _positions(argnums)

    def both(inner: Run, args: tuple[Any, ...]) -> Any:
        value, gradients = _differentiated(inner, args, positions, None)
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return _derive(run, both)


def grad(run: Run, argnums: Numbers = 0) -> Traced:
    """Return a function that gives the gradient alone, and the further values of `run` if any."""
    positions = _positions(argnums)

    def alone(inner: Run, args: tuple[Any, ...]) -> Any:
        value, gradients = _differentiated(inner, args, positions, None)
        gradient = gradients[0] if isinstance(argnums, int) else gradients
        return (gradient, *value[1:]) if isinstance(value, tuple) else gradient

    return _derive(run, alone)


def vjp(run: Run, argnums: Numbers | None = None) -> Callable[..., Any]:
    """Return a function of seeds and arguments that computes a vector-Jacobian product.

    It gives the results of `run` and the derivatives of their sum, each result times its seed, by
    all arguments or those of `argnums`. The seeds have the structure of the results. It is called
    in a traced function, or on arrays.
    """

    @wraps(run)
    def product(seeds: Any, *args: Any) -> Any:
        """Compute the results and the vector-Jacobian product."""
        chosen = tuple(range(len(args))) if argnums is None else _positions(argnums)
        if is_tracing():
            return _traced(_plain(run), args, chosen, (seeds,))
        return _eager(lambda s, *a: _traced(_plain(run), a, chosen, (s,)), (seeds, *args))

    return product


def _derive(run: Run, make: Callable[[Run, tuple[Any, ...]], Any]) -> Traced:
    """Wrap a gradient computation as a traced function with the signature of `run`."""
    inner = _plain(run)
    signature = inspect.signature(inner)

    @wraps(inner)
    def derived(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return make(inner, bound.args)

    return trace(derived)


def _plain(run: Run) -> Run:
    """Return the Python function behind a traced or isolated one."""
    if isinstance(run, Traced | IsolatedFunction):
        return run.run
    if not callable(run):
        raise BadOption(
            f"a function is differentiated, and {type(run).__name__} is none",
            where=type(run).__name__,
            try_="explorer.grad(lambda w: loss(w))",
        )
    return run


def _positions(argnums: Numbers) -> tuple[int, ...]:
    """Return argument positions as a tuple, or raise BadOption."""
    numbers: Any = argnums
    positions = tuple(numbers) if isinstance(numbers, tuple | list) else (numbers,)
    are_positions = all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in positions
    )
    if not positions or not are_positions or len({*positions}) < len(positions):
        raise BadOption(
            f"argnums counts arguments from 0 on, each once; it is {argnums!r}",
            where="argnums",
            actual=argnums,
        )
    return positions


def _differentiated(
    run: Run, args: tuple[Any, ...], positions: tuple[int, ...], seeds: Any
) -> tuple[Any, tuple[Any, ...]]:
    """Return values and gradients, as part of a trace or on arrays."""
    if is_tracing():
        return _traced(run, args, positions, seeds)
    outcome: tuple[Any, tuple[Any, ...]] = _eager(
        lambda *a: _traced(run, a, positions, seeds), args
    )
    return outcome


def _traced(
    run: Run, args: tuple[Any, ...], positions: tuple[int, ...], seeds: tuple[Any] | None
) -> tuple[Any, tuple[Any, ...]]:
    """Emit one gradient into the function that is being traced."""
    with attributed_to_call("gradient"):
        return _emitted(run, args, positions, seeds)


def _emitted(
    run: Run, args: tuple[Any, ...], positions: tuple[int, ...], seeds: tuple[Any] | None
) -> tuple[Any, tuple[Any, ...]]:
    """Trace the body, emit a `Gradient` call of it, and return its values and gradients."""
    if any(n >= len(args) for n in positions):
        raise TraceError(
            f"{calling_line()}: argnums counts {max(positions)}, and {_name(run)} is given "
            f"{len(args)} arguments",
            where=calling_line(),
        )
    frame, (leaves, nesting) = current_frame(), flatten(args)
    arguments = [traced(leaf) for leaf in leaves]
    counts = [len(flatten(arg)[0]) for arg in args]
    wrt = [sum(counts[:n]) + k for n in positions for k in range(counts[n])]
    for n in wrt:
        _check_float(arguments[n], run)
    body = run_body(lambda *v: stage_function(run)(*rebuild(nesting, v)), _name(run), arguments)
    weights = [] if seeds is None else [traced(s) for s in flatten(seeds[0])[0]]
    if seeds is None:
        _check_scalar(body.results, body.structure, run)
    else:
        _check_seeds(weights, body.results, run)
    captures = captures_of([body])
    finish(body, captures)
    call = Gradient(
        body.frame.name,
        (*(frame.own(g.value, g.home) for g in arguments), *captures.values()),
        tuple(wrt),
        tuple(frame.own(w.value, w.home) for w in weights),
    )
    inner = body.frame.defined
    types = [_outer_type(r.type, inner) for r in body.results] + [arguments[n].type for n in wrt]
    dims = [_outer_dims(r.type, inner) for r in body.results] + [
        arguments[n].type.dims for n in wrt
    ]
    outputs = bind(frame, call, types, "gradient", dims)
    value = rebuild(body.structure, outputs[: len(body.results)])
    flat, gradients = outputs[len(body.results) :], list[Any]()
    for n in positions:
        gradients.append(rebuild(flatten(args[n])[1], flat[: counts[n]]))
        flat = flat[counts[n] :]
    return value, tuple(gradients)


def _outer_type(type: Tensor, inner: set[str]) -> Tensor:
    """Return a result's type in symbols of the enclosing function."""
    dims = _outer_dims(type, inner)
    return type if None not in dims else Tensor(None, type.dtype, len(dims))


def _outer_dims(type: Tensor, inner: set[str]) -> tuple[Any, ...]:
    """Return the dims of a type, with None for those in symbols of the body."""

    def names_of(dim: Any) -> set[str]:
        return set() if isinstance(dim, int) else {s.name for s in dim.free_symbols}

    return tuple(None if names_of(d) & inner else d for d in type.dims)


def _check_float(value: TracedArray, run: Run) -> None:
    """Raise DtypeError unless a value has a float dtype."""
    if not is_float(value.type.element):
        raise DtypeError(
            f"{calling_line()}: {_name(run)} is differentiated by {value.type}, and a derivative "
            "is of floats",
            where=calling_line(),
            expected="float32, float64 or another dtype of floats",
            actual=value.type.element,
            try_="argnums of other arguments, or astype",
        )


def _check_scalar(results: Sequence[TracedArray], structure: Structure, run: Run) -> None:
    """Raise an error unless the first result is a float scalar."""
    first = results[0].type if results else None
    while isinstance(structure, Nest) and structure.parts:
        if structure.kind == COMPLEX:
            raise DtypeError(
                f"{calling_line()}: {_name(run)} gives a complex number, and what is "
                "differentiated is a float",
                where=calling_line(),
                try_="its abs, real or imag",
            )
        structure = structure.parts[0]
    if first is None or first.dims != ():
        raise ShapeError(
            f"{calling_line()}: {_name(run)} gives {first or 'nothing'}, and a gradient is that of "
            "one number",
            where=calling_line(),
            expected="a scalar of floats, first",
            try_="sum it, or explorer.vjp, which is given a seed for each result",
        )
    if not is_float(first.element):
        raise DtypeError(
            f"{calling_line()}: {_name(run)} gives {first}, and what is differentiated is a float",
            where=calling_line(),
        )


def _check_seeds(seeds: Sequence[TracedArray], results: Sequence[TracedArray], run: Run) -> None:
    """Raise ShapeError unless the seeds have the types of the results."""
    if [s.type for s in seeds] != [r.type for r in results]:
        raise ShapeError(
            f"{calling_line()}: {_name(run)} gives {', '.join(str(r.type) for r in results)}, and "
            f"the seeds are {', '.join(str(s.type) for s in seeds) or 'none'}",
            where=calling_line(),
            expected="a seed of the same type for each result",
        )


def _name(run: Run) -> str:
    """Return the name of a function, or of the type of a callable object."""
    return getattr(run, "__name__", type(run).__name__)


def _eager(make: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Compute a gradient on arrays: trace for their types, run in the reference interpreter."""
    leaves, nesting = flatten(args)
    arrays = [np.asarray(leaf) for leaf in leaves]
    structures: list[Any] = []

    def compute(arrays: Any) -> Any:
        outputs, structure = flatten(make(*rebuild(nesting, list(arrays))))
        structures[:] = [structure]
        return tuple(outputs)

    declared = tuple(Tensor(a.shape, dtype_of(a)) for a in arrays)
    program = trace(compute).model({"arrays": declared}).program
    names = [p.name for p in program.main.params]
    outputs = evaluate(program, dict(zip(names, arrays, strict=True)))
    return rebuild(structures[0], list(outputs.values()))
