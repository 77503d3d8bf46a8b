"""Values of names between statements, conditions on them, and changes of their elements.

Arrays and numbers are carried by branches and loops of the program. Other values must not change.
After `x[i] = y`, lists and dicts are changed in place. An array is rebound to a new value, since
traced values are immutable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from explorer.errors import TraceError
from explorer.frontends.python.tracing.array import TracedArray, assign_elements
from explorer.frontends.python.tracing.control_flow import scalar_bool
from explorer.frontends.python.tracing.dims import SymbolicDim
from explorer.frontends.python.tracing.emit import is_traced, traced
from explorer.frontends.python.tracing.frames import calling_line, current_frame
from explorer.frontends.python.tracing.structure import flatten, rebuild


class Missing:
    """The value of an unbound name."""

    def __repr__(self) -> str:
        """Return the text for error messages."""
        return "no value"


MISSING = Missing()


def read(name: Callable[[], Any]) -> Any:
    """Return the value of a name, or MISSING if it is unbound."""
    try:
        return name()
    except NameError:
        return MISSING


def is_arrays(value: Any) -> bool:
    """Return True if a value is a non-empty nest of arrays and numbers."""
    leaves, _ = flatten(value)
    return bool(leaves) and all(map(_is_array, leaves))


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, (TracedArray, SymbolicDim)):
        return True
    if isinstance(leaf, (bool, int, float, np.generic)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype != object


def is_plain(value: Any) -> bool:
    """Return True for strings, bytes and None, which are compared by value."""
    return isinstance(value, (str, bytes, type(None)))


def kind_of_value(value: Any) -> str:
    """Return a value's kind for error messages."""
    if value is None:
        return "None"
    return "an array" if is_arrays(value) else f"of type {type(value).__name__}"


def name_for_error(name: str) -> str:
    """Return a name for error messages; generated ones are "the result"."""
    return "the result" if name.startswith("_result_") else name


# Conditions: known ones are bools, others are traced bools.


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def decide(value: Any) -> bool | TracedArray:
    """Return True or False if a condition is known, else a traced bool."""
    if isinstance(value, SymbolicDim):
        value = value != 0
    return scalar_bool(value, "an if or a while") if isinstance(value, TracedArray) else bool(value)


def plain(test: Any, why: str) -> Any:
    """Return the condition of a statement that must run in Python; refuse a traced one."""
    if isinstance(test, (TracedArray, SymbolicDim)) and not isinstance(decide(test), bool):
        refuse_traced(why)
    return test


def plain_rows(rows: Any, why: str) -> Any:
    """Return the iterable of a `for` that must run in Python; refuse a traced one."""
    if isinstance(rows, TracedArray) and rows.ndim and not isinstance(rows.shape[0], int):
        refuse_traced(why)
    return rows


def refuse_traced(why: str) -> None:
    """Raise TraceError: a traced statement cannot contain `why`."""
    line = calling_line()
    raise TraceError(
        f"{line}: this condition is known only at run time ({line.text}), and a traced statement "
        f"cannot contain: {why}",
        where=line,
        try_="a flag that is assigned, or explorer.cond, explorer.while_loop or explorer.scan",
    )


def and_(*parts: Callable[[], Any]) -> Any:
    """Return `a and b and …`."""
    return _short_circuit(parts, "logical_and", False)


def or_(*parts: Callable[[], Any]) -> Any:
    """Return `a or b or …`."""
    return _short_circuit(parts, "logical_or", True)


def _short_circuit(parts: Sequence[Callable[[], Any]], name: str, ends: bool) -> Any:
    value = parts[0]()
    for part in parts[1:]:
        if not isinstance(value, (TracedArray, SymbolicDim)):
            if bool(value) is ends:
                return value
            value = part()
            continue
        here = decide(value)
        if isinstance(here, bool):
            value = value if here is ends else part()
            continue
        value = getattr(TracedArray.functions, name)(here, _as_condition(part()))
    return value


def _as_condition(value: Any) -> Any:
    return decide(value) if is_traced(value) else bool(value)


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """Return `left < middle < right`: each operand is evaluated once, later ones only if needed."""
    name, later = pairs[0]
    right = later()
    here = COMPARISONS[name](left, right)
    return here if len(pairs) == 1 else and_(lambda: here, lambda: chain(right, *pairs[1:]))


def not_(value: Any) -> Any:
    """Return `not value`."""
    here = decide(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return not here if isinstance(here, bool) else TracedArray.functions.logical_not(here)


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
