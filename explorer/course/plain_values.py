"""Closed format of the values that cross from a helper process to the grader.

A value is None, a truth value, a number, a word, bytes, a NumPy array, or a list, a tuple or a dict
of such values. The text is JSON. Reading it builds these types and nothing else, so that a hostile
helper can send a wrong value, but no code and no object with methods of its own.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from explorer.process.user_code import a

MOST_BYTES = 1 << 24  # of a text; chosen
DEEPEST = 32  # levels of lists in lists; chosen
MOST_DIMS = 16
DTYPES = frozenset(
    {
        *("bool", "float16", "float32", "float64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    }
)


class NotPlain(Exception):
    """A value or a text of another kind; the message is the rest of a sentence."""


def encode(value: object) -> bytes:
    """Return the text of a value.

    Raises:
        NotImplementedError: A part of it is `...`, a blank that nothing was filled in.
        NotPlain: A part of it has another type, or it is too large.
    """
    text = json.dumps(_to_json(value, DEEPEST), allow_nan=False, separators=(",", ":")).encode()
    if len(text) > MOST_BYTES:
        raise NotPlain(f"is larger than {MOST_BYTES >> 20} MiB")
    return text


def decode(text: bytes) -> Any:
    """Return the value of a text from a helper, which may hold anything.

    Raises:
        NotPlain: It is no text of this format.
    """
    if len(text) > MOST_BYTES:
        raise NotPlain(f"is larger than {MOST_BYTES >> 20} MiB")
    try:
        return _of_json(json.loads(text), DEEPEST)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as problem:
        raise NotPlain(f"cannot be read: {problem}") from problem


def _to_json(value: Any, depth: int) -> Any:
    if depth == 0:
        raise NotPlain(f"is deeper than {DEEPEST} levels")
    if isinstance(value, np.generic):
        value = value.item()
    if value is ...:
        raise NotImplementedError("a blank of the stub is left")
    match value:
        case None | bool() | str():
            return _exact(value, value)
        case int():
            return _exact(value, value if -(1 << 63) <= value < 1 << 64 else _refuse(value))
        case float():
            return _exact(value, value if math.isfinite(value) else {"float": repr(value)})
        case bytes():
            return {"bytes": b64encode(value).decode()}
        case list():
            return [_to_json(item, depth - 1) for item in value]
        case tuple():
            return {"tuple": [_to_json(item, depth - 1) for item in value]}
        case dict():
            pairs = [[_to_json(v, depth - 1) for v in pair] for pair in value.items()]
            return {"dict": pairs}
        case np.ndarray():
            if value.dtype.name not in DTYPES or value.ndim > MOST_DIMS:
                raise NotPlain(f"is an array of {value.dtype}")
            data = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
            return {
                "array": [value.dtype.name, list(value.shape), b64encode(data.tobytes()).decode()]
            }
    return _refuse(value)


def _exact(value: object, text: Any) -> Any:
    """Return the text of a value unless its type is a subclass with behaviour of its own."""
    is_own = value is None or type(value) in (bool, int, float, str)
    return text if is_own else _refuse(value)


def _refuse(value: object) -> Any:
    raise NotPlain(f"is {a(value)}, and plain values cross to the grader: numbers, words, arrays")


def _of_json(value: Any, depth: int) -> Any:
    if depth == 0:
        raise NotPlain(f"is deeper than {DEEPEST} levels")
    if isinstance(value, list):
        return [_of_json(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "float" if content in ("nan", "inf", "-inf"):
            return float(content)
        case "bytes":
            return b64decode(content, validate=True)
        case "tuple":
            return tuple(_of_json(item, depth - 1) for item in list(content))
        case "dict":
            return {_of_json(k, depth - 1): _of_json(v, depth - 1) for k, v in content}
        case "array":
            return _array(*content)
    raise NotPlain("has a part of an unknown kind")


def _array(dtype: Any, shape: Any, text: Any) -> np.ndarray:
    is_shape = isinstance(shape, list) and len(shape) <= MOST_DIMS
    if dtype not in DTYPES or not is_shape or any(type(n) is not int or n < 0 for n in shape):
        raise NotPlain("has an array of an unknown kind")
    data = b64decode(text, validate=True)
    item = np.dtype(dtype).itemsize
    if math.prod(shape) * item != len(data):
        raise NotPlain(f"has an array of {len(data)} bytes for the shape {shape}")
    flat = np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))
    return flat.astype(dtype).reshape(shape)
