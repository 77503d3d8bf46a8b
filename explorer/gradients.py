"""Derivatives of Python functions over arrays: again functions over arrays, of the same arguments.

In a trace a gradient is one call of the program, which compiling spells out; on arrays it is
computed at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

import explorer.gradient_programs  # noqa: F401  it tells the interpreter what a gradient means
from explorer.errors import BadOption, DtypeError, ShapeError, TraceError
from explorer.frontends.functions import IsolatedFunction
from explorer.frontends.syntax.staged import staged
from explorer.frontends.trace import Traced, trace
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.bodies import captured, finish, run_body
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import current_frame, is_tracing, source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.structure import COMPLEX, Several, Structure, flatten, rebuild
from explorer.ir.calls import Gradient
from explorer.ir.dtypes import is_float
from explorer.ir.types import Tensor, dtype_of
from explorer.ops.reference.evaluate import evaluate

Run = Callable[..., Any]
__all__ = ["evaluate", "grad", "value_and_grad", "vjp"]


Numbers = int | Sequence[int]


def value_and_grad(run: Run, argnums: Numbers = 0) -> Traced:
    """A function that gives what `run` gives, a scalar of floats, and its gradient by the arguments
    that `argnums` counts: nested as each of them is, as a tuple where `argnums` is one.

    `run` may give a tuple: its first value is differentiated, the others are given as they are.
    An argument is an array, or tuples, lists and dicts of arrays. One that nothing depends on has
    zeros. The gradient by a complex array is complex: the derivative by its real part, and 1j times
    that by its imaginary one. Raises TraceError, DtypeError or ShapeError; each names the line.
    """
    wanted = _numbers(argnums)

    def both(inner: Run, args: tuple[Any, ...]) -> Any:
        value, found = _differentiated(inner, args, wanted, None)
        return value, found[0] if isinstance(argnums, int) else found

    return _of(run, both)


def grad(run: Run, argnums: Numbers = 0) -> Traced:
    """The gradient alone; with what `run` gives besides its scalar, where it gives a tuple."""
    wanted = _numbers(argnums)

    def alone(inner: Run, args: tuple[Any, ...]) -> Any:
        value, found = _differentiated(inner, args, wanted, None)
        gradient = found[0] if isinstance(argnums, int) else found
        return (gradient, *value[1:]) if isinstance(value, tuple) else gradient

    return _of(run, alone)


def vjp(run: Run, argnums: Numbers | None = None) -> Callable[..., Any]:
    """A function of seeds, nested as what `run` gives, and of its arguments: it gives the results,
    and the derivatives of their sum, each times its seed, by all arguments or those that `argnums`
    counts. It is called in a traced function, or on arrays.
    """

    @wraps(run)
    def product(seeds: Any, *args: Any) -> Any:
        chosen = tuple(range(len(args))) if argnums is None else _numbers(argnums)
        if is_tracing():
            return _traced(_plain(run), args, chosen, (seeds,))
        return _eager(lambda s, *a: _traced(_plain(run), a, chosen, (s,)), (seeds, *args))

    return product


def _of(run: Run, make: Callable[[Run, tuple[Any, ...]], Any]) -> Traced:
    inner = _plain(run)
    signature = inspect.signature(inner)

    @wraps(inner)
    def derived(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return make(inner, bound.args)

    return trace(derived)


def _plain(run: Run) -> Run:
    """The Python function that is differentiated."""
    if isinstance(run, Traced | IsolatedFunction):
        return run.run
    if not callable(run):
        raise BadOption(
            f"a function is differentiated, and {type(run).__name__} is none",
            where=type(run).__name__,
            try_="explorer.grad(lambda w: loss(w))",
        )
    return run


def _numbers(argnums: Numbers) -> tuple[int, ...]:
    given: Any = argnums
    found = tuple(given) if isinstance(given, tuple | list) else (given,)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in found)
    if not found or not whole or len({*found}) < len(found):
        raise BadOption(
            f"argnums counts arguments from 0 on, each once; it is {argnums!r}",
            where="argnums",
            found=argnums,
        )
    return found


def _differentiated(
    run: Run, args: tuple[Any, ...], wanted: tuple[int, ...], seeds: Any
) -> tuple[Any, tuple[Any, ...]]:
    if is_tracing():
        return _traced(run, args, wanted, seeds)
    found: tuple[Any, tuple[Any, ...]] = _eager(lambda *a: _traced(run, a, wanted, seeds), args)
    return found


def _traced(
    run: Run, args: tuple[Any, ...], wanted: tuple[int, ...], seeds: tuple[Any] | None
) -> tuple[Any, tuple[Any, ...]]:
    """One gradient in the function that is being written."""
    with source_of("gradient"):
        return _emitted(run, args, wanted, seeds)


def _emitted(
    run: Run, args: tuple[Any, ...], wanted: tuple[int, ...], seeds: tuple[Any] | None
) -> tuple[Any, tuple[Any, ...]]:
    if any(n >= len(args) for n in wanted):
        raise TraceError(
            f"{calling_line()}: argnums counts {max(wanted)}, and {_name(run)} is given "
            f"{len(args)} arguments",
            where=calling_line(),
        )
    frame, (leaves, nesting) = current_frame(), flatten(args)
    given = [traced(leaf) for leaf in leaves]
    counts = [len(flatten(arg)[0]) for arg in args]
    wrt = [sum(counts[:n]) + k for n in wanted for k in range(counts[n])]
    for n in wrt:
        _check_float(given[n], run)
    body = run_body(lambda *v: staged(run)(*rebuild(nesting, v)), _name(run), given)
    weights = [] if seeds is None else [traced(s) for s in flatten(seeds[0])[0]]
    if seeds is None:
        _check_scalar(body.results, body.structure, run)
    else:
        _check_seeds(weights, body.results, run)
    captures = captured([body])
    finish(body, captures)
    call = Gradient(
        body.frame.name,
        (*(frame.own(g.value, g.home) for g in given), *captures.values()),
        tuple(wrt),
        tuple(frame.own(w.value, w.home) for w in weights),
    )
    inner = body.frame.defined
    types = [_seen(r.type, inner) for r in body.results] + [given[n].type for n in wrt]
    dims = [_known(r.type, inner) for r in body.results] + [given[n].type.dims for n in wrt]
    found = bind(frame, call, types, "gradient", dims)
    value = rebuild(body.structure, found[: len(body.results)])
    rest, gradients = found[len(body.results) :], list[Any]()
    for n in wanted:
        gradients.append(rebuild(flatten(args[n])[1], rest[: counts[n]]))
        rest = rest[counts[n] :]
    return value, tuple(gradients)


def _seen(type: Tensor, inner: set[str]) -> Tensor:
    """A result's type in symbols of the function around."""
    known = _known(type, inner)
    return type if None not in known else Tensor(None, type.dtype, len(known))


def _known(type: Tensor, inner: set[str]) -> tuple[Any, ...]:
    def name_of(dim: Any) -> set[str]:
        return set() if isinstance(dim, int) else {s.name for s in dim.free_symbols}

    return tuple(None if name_of(d) & inner else d for d in type.dims)


def _check_float(value: TracedArray, run: Run) -> None:
    if not is_float(value.type.element):
        raise DtypeError(
            f"{calling_line()}: {_name(run)} is differentiated by {value.type}, and a derivative "
            "is of floats",
            where=calling_line(),
            expected="float32, float64 or another dtype of floats",
            found=value.type.element,
            try_="argnums of other arguments, or astype",
        )


def _check_scalar(results: Sequence[TracedArray], structure: Structure, run: Run) -> None:
    first = results[0].type if results else None
    while isinstance(structure, Several) and structure.parts:
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
    if [s.type for s in seeds] != [r.type for r in results]:
        raise ShapeError(
            f"{calling_line()}: {_name(run)} gives {', '.join(str(r.type) for r in results)}, and "
            f"the seeds are {', '.join(str(s.type) for s in seeds) or 'none'}",
            where=calling_line(),
            expected="a seed of the same type for each result",
        )


def _name(run: Run) -> str:
    return getattr(run, "__name__", type(run).__name__)


def _eager(make: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The same on arrays: traced for their types, and run in the reference interpreter."""
    leaves, nesting = flatten(args)
    arrays = [np.asarray(leaf) for leaf in leaves]
    structures: list[Any] = []

    def whole(arrays: Any) -> Any:
        found, structure = flatten(make(*rebuild(nesting, list(arrays))))
        structures[:] = [structure]
        return tuple(found)

    declared = tuple(Tensor(a.shape, dtype_of(a)) for a in arrays)
    program = trace(whole).model({"arrays": declared}).program
    names = [p.name for p in program.main.params]
    found = evaluate(program, dict(zip(names, arrays, strict=True)))
    return rebuild(structures[0], list(found.values()))
