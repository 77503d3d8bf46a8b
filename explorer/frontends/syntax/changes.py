"""What `x[i] = y` does: Python's own where x is a list or a dict, another value of x where it is an
array, for what only a run knows is never changed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from explorer.frontends.syntax.truth import cannot
from explorer.frontends.syntax.values import MISSING, is_arrays
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.array import changed as changed_array
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.promote import is_traced, traced
from explorer.frontends.tracing.structure import flatten, rebuild

# Of each name of which a statement changes elements: its place among the values that the statement
# is given, the name, and whether it comes from outside of the statement.
Elements: TypeAlias = tuple[tuple[int, str, bool], ...]
Values: TypeAlias = tuple[Any, ...]
Operator: TypeAlias = Callable[[Any, Any], Any]

# Python's own, and what is asked of an array of the program, whose elements change as a whole.
RENEWED: dict[str, tuple[Operator, Operator]] = {
    "Add": (operator.iadd, operator.add),
    "Sub": (operator.isub, operator.sub),
    "Mult": (operator.imul, operator.mul),
    "MatMult": (operator.imatmul, operator.matmul),
    "Div": (operator.itruediv, operator.truediv),
    "FloorDiv": (operator.ifloordiv, operator.floordiv),
    "Mod": (operator.imod, operator.mod),
    "Pow": (operator.ipow, operator.pow),
    "BitAnd": (operator.iand, operator.and_),
    "BitOr": (operator.ior, operator.or_),
    "BitXor": (operator.ixor, operator.xor),
    "LShift": (operator.ilshift, operator.lshift),
    "RShift": (operator.irshift, operator.rshift),
}


def changed(x: Any, path: tuple[Any, ...], place: Any, value: Any) -> Any:
    """What x is called from here on, after `x[path][place] = value`."""
    if not path:
        return _changed(x, place, value)
    holder = reduce(operator.getitem, path[:-1], x)
    old = holder[path[-1]]
    new = _changed(old, place, value)
    if new is not old:
        holder[path[-1]] = new
    return x


def renewed(x: Any, path: tuple[Any, ...], place: Any, value: Any, name: str) -> Any:
    """What x is called from here on, after `x[path][place] += value`, or another operator's."""
    holder = reduce(operator.getitem, path, x)
    of_elements = isinstance(holder, TracedArray)
    return changed(x, path, place, RENEWED[name][of_elements](holder[place], value))


def _changed(x: Any, place: Any, value: Any) -> Any:
    if isinstance(x, np.ndarray) and (is_traced(value) or is_traced(place) or is_traced(x)):
        x = _of_the_program(x)
    if isinstance(x, TracedArray):
        return changed_array(x, place, value)
    x[place] = value
    return x


def _of_the_program(x: np.ndarray) -> TracedArray:
    """An array of the program in place of one of NumPy's, under all names that this one has."""
    known = current_frame().recorder.replaced
    if id(x) not in known:
        known[id(x)] = x, traced(x)
    return known[id(x)][1]  # type: ignore[no-any-return] # the recorder knows no traced arrays


def begun(elements: Elements, given: Values) -> Values:
    """What a statement that is traced is given; TraceError where it would change elements of what
    is no array, nor a list or dict of such.
    """
    values = list(given)
    for n, name, outside in elements:
        value = given[n]
        if outside and value is not MISSING and not _holds_arrays(value):
            cannot(f"change of elements of {name}, which is a {type(value).__name__}")
        values[n] = _own(value)
    return tuple(values)


def _holds_arrays(value: Any) -> bool:
    return isinstance(value, (TracedArray, np.ndarray, list, dict)) and is_arrays(value)


def _own(value: Any) -> Any:
    """The same arrays, which are of the program, in lists and dicts of its own."""
    if isinstance(value, np.ndarray):
        return _of_the_program(value)
    leaves, nesting = flatten(value)
    if not isinstance(value, (list, dict)):
        return value
    return rebuild(nesting, [_own(leaf) for leaf in leaves])


def restored(names: Sequence[str], found: Values, elements: Elements, given: Values) -> Values:
    """The values of the names, in the lists and dicts that these were before the statement."""
    held = {name: given[n] for n, name, _ in elements if isinstance(given[n], (list, dict))}
    pairs = zip(names, found, strict=True)
    return tuple(_into(held[n], v) if n in held else v for n, v in pairs)


def _into(old: Any, new: Any) -> Any:
    """The old list or dict, which holds the new values."""
    if isinstance(old, list) and isinstance(new, list):
        old[:] = [_into(a, b) for a, b in zip_longest(old[: len(new)], new)]
    elif isinstance(old, dict) and isinstance(new, dict):
        both = {k: _into(old.get(k), v) for k, v in new.items()}
        old.clear()
        old.update(both)
    else:
        return new
    return old
