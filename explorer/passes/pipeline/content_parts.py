"""Parts of well-known types for content digests: values with equal parts are equal."""

from __future__ import annotations

import functools
import operator
import re
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from types import GenericAlias, MappingProxyType, MethodType, UnionType
from typing import Any

import numpy as np

from explorer.cached_property import cached_property
from explorer.devices.model import Device, text_of_device
from explorer.ir.program import Constant

PARTS: dict[type, Callable[[Any], object]] = {
    list: tuple,
    bytearray: bytes,
    deque: lambda d: (tuple(d), d.maxlen),
    dict: lambda d: tuple(dict.items(d)),
    OrderedDict: lambda d: tuple(OrderedDict.items(d)),
    defaultdict: lambda d: (d.default_factory, tuple(dict.items(d))),
    MappingProxyType: lambda d: tuple(d.items()),
    partial: lambda p: (p.func, p.args, tuple(p.keywords.items()), tuple(vars(p).items())),
    slice: lambda s: (s.start, s.stop, s.step),
    range: lambda r: (r.start, r.stop, r.step),
    property: lambda p: (p.fget, p.fset, p.fdel),
    staticmethod: lambda m: m.__func__,
    classmethod: lambda m: m.__func__,
    functools.cached_property: lambda p: p.func,
    cached_property: lambda p: p.func,
    MethodType: lambda m: (m.__func__, m.__self__),
    Fraction: lambda f: (f.numerator, f.denominator),
    re.Pattern: lambda p: (p.pattern, p.flags),
    GenericAlias: lambda a: (a.__origin__, a.__args__),
    UnionType: lambda a: a.__args__,
    type(lru_cache(len)): lambda f: f.__wrapped__,
    Constant: lambda c: c.digest,
    Device: text_of_device,
    np.dtype: repr,
    np.ufunc: lambda f: f.__name__,
    **dict.fromkeys(
        (
            operator.itemgetter,
            operator.attrgetter,
            operator.methodcaller,
            type(vars(namedtuple("Point", "x"))["x"]),
        ),
        lambda getter: getter.__reduce__(),
    ),
}
