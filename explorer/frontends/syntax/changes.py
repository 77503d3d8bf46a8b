"""`x[i] = y` on traced values.

Lists and dicts change in place. An array is rebound to a new value, since traced values are
immutable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from explorer.frontends.syntax.truth import refuse_traced
from explorer.frontends.syntax.values import MISSING, is_arrays
from explorer.frontends.tracing.array import TracedArray, assign_elements
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.promote import is_traced, traced
from explorer.frontends.tracing.structure import flatten, rebuild

# For each name whose elements a statement changes: its index among the statement's inputs, the
# name, and True if it is bound outside of the statement.
Elements: TypeAlias = tuple[tuple[int, str, bool], ...]
Values: TypeAlias = tuple[Any, ...]
Operator: TypeAlias = Callable[[Any, Any], Any]

# The in-place operator, and the binary one for traced arrays, which are rebound.
AUGMENTED: dict[str, tuple[Operator, Operator]] = {
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


def assign_element(x: Any, path: tuple[Any, ...], place: Any, value: Any) -> Any:
    """Return the value of x after `x[path][place] = value`."""
    if not path:
        return _assign(x, place, value)
    holder = reduce(operator.getitem, path[:-1], x)
    old = holder[path[-1]]
    new = _assign(old, place, value)
    if new is not old:
        holder[path[-1]] = new
    return x


def augment_element(x: Any, path: tuple[Any, ...], place: Any, value: Any, name: str) -> Any:
    """Return the value of x after `x[path][place] += value`, or another augmented assignment."""
    holder = reduce(operator.getitem, path, x)
    of_elements = isinstance(holder, TracedArray)
    return assign_element(x, path, place, AUGMENTED[name][of_elements](holder[place], value))


def _assign(x: Any, place: Any, value: Any) -> Any:
    if isinstance(x, np.ndarray) and (is_traced(value) or is_traced(place) or is_traced(x)):
        x = _traced_replacement(x)
    if isinstance(x, TracedArray):
        return assign_elements(x, place, value)
    x[place] = value
    return x


def _traced_replacement(x: np.ndarray) -> TracedArray:
    """Return the traced array that replaces a NumPy array under all its names."""
    replaced = current_frame().recorder.replaced
    if id(x) not in replaced:
        replaced[id(x)] = x, traced(x)
    return replaced[id(x)][1]  # type: ignore[no-any-return] # the recorder knows no traced arrays


def prepare_elements(elements: Elements, inputs: Values) -> Values:
    """Return the values passed to a traced statement.

    Raises TraceError if it changes elements of something that is not an array, or a list or dict of
    arrays.
    """
    values = list(inputs)
    for n, name, outside in elements:
        value = inputs[n]
        if outside and value is not MISSING and not _holds_arrays(value):
            refuse_traced(f"change of elements of {name}, which is a {type(value).__name__}")
        values[n] = _own(value)
    return tuple(values)


def _holds_arrays(value: Any) -> bool:
    return isinstance(value, (TracedArray, np.ndarray, list, dict)) and is_arrays(value)


def _own(value: Any) -> Any:
    """Return the same arrays as traced arrays, in fresh lists and dicts."""
    if isinstance(value, np.ndarray):
        return _traced_replacement(value)
    leaves, nesting = flatten(value)
    if not isinstance(value, (list, dict)):
        return value
    return rebuild(nesting, [_own(leaf) for leaf in leaves])


def write_back(names: Sequence[str], results: Values, elements: Elements, inputs: Values) -> Values:
    """Return the values of the names, written back into the original lists and dicts."""
    containers = {name: inputs[n] for n, name, _ in elements if isinstance(inputs[n], (list, dict))}
    pairs = zip(names, results, strict=True)
    return tuple(_into(containers[n], v) if n in containers else v for n, v in pairs)


def _into(old: Any, new: Any) -> Any:
    """Write the new values into the old list or dict."""
    if isinstance(old, list) and isinstance(new, list):
        old[:] = [_into(a, b) for a, b in zip_longest(old[: len(new)], new)]
    elif isinstance(old, dict) and isinstance(new, dict):
        both = {k: _into(old.get(k), v) for k, v in new.items()}
        old.clear()
        old.update(both)
    else:
        return new
    return old
