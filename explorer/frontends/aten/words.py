"""PyTorch's words: names of operators, and what its errors say."""

from __future__ import annotations

import re
from typing import Any


def name_of(target: Any) -> str:
    """The name of an operator of PyTorch's: `aten.add.Tensor`."""
    named = getattr(target, "name", None)
    text = str(named()) if callable(named) else getattr(target, "__name__", str(target))
    return text.replace("::", ".").removesuffix(".default")


def first_line(error: BaseException) -> str:
    """The first line of what an error says, without colours."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)[:300]


def changed_input(node: Any) -> str:
    """The input of a graph, by name, that an operator changes; nothing if it changes none."""
    formals = getattr(getattr(node.target, "_schema", None), "arguments", ())
    for formal, value in zip(formals, node.args, strict=False):
        written = formal.alias_info is not None and formal.alias_info.is_write
        if written and getattr(value, "op", "") == "placeholder":
            return str(value.name)
    return ""
