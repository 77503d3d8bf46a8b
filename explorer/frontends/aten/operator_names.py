"""Names of PyTorch's operators, and texts of its errors."""

from __future__ import annotations

import re
from typing import Any


def name_of(target: Any) -> str:
    """Return the name of a PyTorch operator: `aten.add.Tensor`."""
    named = getattr(target, "name", None)
    text = str(named()) if callable(named) else getattr(target, "__name__", str(target))
    return text.replace("::", ".").removesuffix(".default")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without colours."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)[:300]


def changed_input(node: Any) -> str:
    """Return the name of the graph input that an operator changes, or ""."""
    formals = getattr(getattr(node.target, "_schema", None), "arguments", ())
    for formal, value in zip(formals, node.args, strict=False):
        written = formal.alias_info is not None and formal.alias_info.is_write
        if written and getattr(value, "op", "") == "placeholder":
            return str(value.name)
    return ""
