"""Graphs of PyTorch: preparation of loop and branch bodies, names of operators, texts of errors.

`torch.export` produces two forms of bodies that PyTorch's decompositions and its ONNX exporter
refuse: two operands of a loop that may share memory, and a tensor that a body builds from numbers.
"""

from __future__ import annotations

import copy
import re
from importlib import import_module
from typing import Any

from explorer.errors import UnsupportedOperator

MOST_ELEMENTS = 256  # of a tensor that a body builds from numbers: each becomes a node


def prepare_bodies(program: Any) -> Any:
    """Return the ExportedProgram without these forms; the argument is not modified.

    Raises:
        UnsupportedOperator: a body builds a larger tensor, returns a Python value or changes its
            arguments, or a scan's initial state occurs twice among its operands.
    """
    if not _bodies(program.graph_module):
        return program
    module_copy = copy.deepcopy(program.graph_module)  # it holds no weights
    bodies = _bodies(module_copy)
    for module in (module_copy, *bodies.values()):
        for node in list(module.graph.nodes):
            if any(_is_body(module, value) for value in node.args):
                check_states(node)
                _clone_shared_operands(module, node)
    for name, body in bodies.items():
        for node in list(body.graph.nodes):
            _check(node, name)
            if node.op == "get_attr" and not _is_body(body, node):
                _build_tensor(body, node, name)
        for buffer, _ in list(body.named_buffers(recurse=False)):
            delattr(body, buffer)
    return program._update(module_copy, program.graph_signature)


def _bodies(module: Any) -> dict[str, Any]:
    """Return the graphs nested in a graph, at any depth."""
    return {name: m for name, m in module.named_modules() if name and hasattr(m, "graph")}


def _is_body(module: Any, value: Any) -> bool:
    if getattr(value, "op", "") != "get_attr":
        return False
    return hasattr(getattr(module, value.target, None), "graph")


def check_states(node: Any) -> None:
    """Refuse a scan that has a tensor twice: `torch.export` 2.13 merges such parameters."""
    if node.target is not import_module("torch").ops.higher_order.scan:
        return
    states, others = node.args[1], node.args[3]
    twice = next((v for v in states if [*states, *others].count(v) > 1), None)
    if twice is not None:
        raise UnsupportedOperator(
            f"{node.name} has {twice.name!r} as a state and as another operand, which torch.export "
            "merges to one value",
            where=node.name,
            try_=f"{twice.name}.clone() as the state",
        )


def _clone_shared_operands(module: Any, node: Any) -> None:
    """Clone operands, so that no two share memory.

    `while_loop(f, g, (x, y), (x,))` → `while_loop(f, g, (x, y), (clone(x),))`
    """
    aten = import_module("torch").ops.aten
    unshared: set[Any] = set()

    def parted(value: Any) -> Any:
        is_tensor = hasattr(getattr(value, "meta", {}).get("val"), "dtype")
        if not is_tensor or (value.op == "placeholder" and value not in unshared):
            unshared.add(value)
            return value
        return _insert_call(module, node, value, aten.clone.default, value)

    for place, values in enumerate(node.args):
        if isinstance(values, (tuple, list)):
            node.update_arg(place, type(values)([parted(v) for v in values]))


def _build_tensor(body: Any, node: Any, name: str) -> None:
    """Build a tensor of numbers by operators.

    `tensor([2, 3])` → `stack([full([], 2), full([], 3)]).view([2])`
    """
    aten = import_module("torch").ops.aten
    tensor = getattr(body, node.target)
    numbers, shape = tensor.flatten().tolist(), list(tensor.shape)
    if len(numbers) > MOST_ELEMENTS:
        raise UnsupportedOperator(
            f"{name} builds a tensor of {len(numbers)} numbers; a loop or branch may build at most "
            f"{MOST_ELEMENTS}",
            where=name,
            try_="build it before, or make it a buffer of the module",
        )

    def full(shape: list[int], number: Any) -> Any:
        kind = {"dtype": tensor.dtype, "device": tensor.device}
        return _insert_call(body, node, node, aten.full.default, shape, number, **kind)

    if len(set(numbers)) <= 1:
        replacement = full(shape, next(iter(numbers), 0))
    else:
        flat = _insert_call(body, node, node, aten.stack.default, [full([], n) for n in numbers])
        replacement = _insert_call(body, node, node, aten.view.default, flat, shape)
    for user in [u for u in node.users if u.target is aten.lift_fresh_copy.default]:
        user.replace_all_uses_with(replacement)
        body.graph.erase_node(user)
    node.replace_all_uses_with(replacement)
    body.graph.erase_node(node)


def _insert_call(
    module: Any, before: Any, like: Any, target: Any, *args: Any, **kwargs: Any
) -> Any:
    """Insert a call of an operator before a node; its fake value has the mode of `like`'s."""
    map_arg = import_module("torch.fx.node").map_arg
    with module.graph.inserting_before(before):
        call = module.graph.call_function(target, args, kwargs)
    with like.meta["val"].fake_mode:
        call.meta["val"] = target(*map_arg(args, lambda n: n.meta["val"]), **kwargs)
    return call


def _check(node: Any, name: str) -> None:
    """Check that a body returns tensors, and does not change its arguments."""
    returned = node.args[0] if node.op == "output" else ()
    for value in returned if isinstance(returned, (tuple, list)) else (returned,):
        if value is not None and not hasattr(value, "op"):
            raise UnsupportedOperator(
                f"{name} returns {value!r}; a loop or branch must return tensors",
                where=name,
                try_=f"torch.tensor({value!r})",
            )
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    for formal, value in zip(arguments, node.args, strict=False):
        written = formal.alias_info is not None and formal.alias_info.is_write
        if written and getattr(value, "op", "") == "placeholder":
            raise UnsupportedOperator(
                f"{name} changes {value.name!r} in place ({node.target.name()}), but a loop or "
                "branch must return new tensors",
                where=name,
                try_="a state of the loop, or a result of the branch",
            )


# Names and texts.


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
