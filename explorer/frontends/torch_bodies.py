"""The bodies of PyTorch's loops and branches, as its own decompositions take them.

`torch.export` gives two things that PyTorch's ONNX exporter refuses: two values of a loop that may
lie in one memory, as a state does that starts where the body also looks, and a tensor that a body
makes of numbers.
"""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

from explorer.errors import UnsupportedOperator

MOST_ELEMENTS = 256  # of a tensor that a body makes of numbers: each is a node for PyTorch


def prepared(program: Any) -> Any:
    """The ExportedProgram without such things; the one that is given stays as it is.

    Raises UnsupportedOperator for a body that makes a larger tensor, gives a value of Python's, or
    changes what it is given, and for a scan whose state starts as a tensor that it has twice.
    """
    if not _bodies(program.graph_module):
        return program
    whole = copy.deepcopy(program.graph_module)  # weights are not in it
    bodies = _bodies(whole)
    for module in (whole, *bodies.values()):
        for node in list(module.graph.nodes):
            if any(_is_body(module, value) for value in node.args):
                check_states(node)
                _part_operands(module, node)
    for name, body in bodies.items():
        for node in list(body.graph.nodes):
            _check(node, name)
            if node.op == "get_attr" and not _is_body(body, node):
                _fill(body, node, name)
        for buffer, _ in list(body.named_buffers(recurse=False)):
            delattr(body, buffer)
    return program._update(whole, program.graph_signature)


def _bodies(module: Any) -> dict[str, Any]:
    """The graphs in a graph, at any depth."""
    return {name: m for name, m in module.named_modules() if name and hasattr(m, "graph")}


def _is_body(module: Any, value: Any) -> bool:
    if getattr(value, "op", "") != "get_attr":
        return False
    return hasattr(getattr(module, value.target, None), "graph")


def check_states(node: Any) -> None:
    """`torch.export` 2.13 takes two parameters of a scan's body for one, if they start as one."""
    if node.target is not import_module("torch").ops.higher_order.scan:
        return
    states, others = node.args[1], node.args[3]
    twice = next((v for v in states if [*states, *others].count(v) > 1), None)
    if twice is not None:
        raise UnsupportedOperator(
            f"{node.name} has {twice.name!r} as a state and once more, which torch.export takes "
            "for one value",
            where=node.name,
            try_=f"{twice.name}.clone() as the state",
        )


def _part_operands(module: Any, node: Any) -> None:
    """`while_loop(f, g, (x, y), (x,))` → `while_loop(f, g, (x, y), (clone(x),))`: no two operands
    share memory then.
    """
    aten = import_module("torch").ops.aten
    seen: set[Any] = set()

    def parted(value: Any) -> Any:
        is_tensor = hasattr(getattr(value, "meta", {}).get("val"), "dtype")
        if not is_tensor or (value.op == "placeholder" and value not in seen):
            seen.add(value)
            return value
        return _added(module, node, value, aten.clone.default, value)

    for place, values in enumerate(node.args):
        if isinstance(values, (tuple, list)):
            node.update_arg(place, type(values)([parted(v) for v in values]))


def _fill(body: Any, node: Any, name: str) -> None:
    """`tensor([2, 3])` → `stack([full([], 2), full([], 3)]).view([2])`."""
    aten = import_module("torch").ops.aten
    tensor = getattr(body, node.target)
    numbers, shape = tensor.flatten().tolist(), list(tensor.shape)
    if len(numbers) > MOST_ELEMENTS:
        raise UnsupportedOperator(
            f"{name} makes a tensor of {len(numbers)} numbers, where a loop or branch may make "
            f"{MOST_ELEMENTS}",
            where=name,
            try_="make it before, or a buffer of the module",
        )

    def full(shape: list[int], number: Any) -> Any:
        kind = {"dtype": tensor.dtype, "device": tensor.device}
        return _added(body, node, node, aten.full.default, shape, number, **kind)

    if len(set(numbers)) <= 1:
        made = full(shape, next(iter(numbers), 0))
    else:
        flat = _added(body, node, node, aten.stack.default, [full([], n) for n in numbers])
        made = _added(body, node, node, aten.view.default, flat, shape)
    for user in [u for u in node.users if u.target is aten.lift_fresh_copy.default]:
        user.replace_all_uses_with(made)
        body.graph.erase_node(user)
    node.replace_all_uses_with(made)
    body.graph.erase_node(node)


def _added(module: Any, before: Any, like: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of an operator before a node; PyTorch wants to know what it gives: a value of the kind
    that `like` is.
    """
    map_arg = import_module("torch.fx.node").map_arg
    with module.graph.inserting_before(before):
        made = module.graph.call_function(target, args, kwargs)
    with like.meta["val"].fake_mode:
        made.meta["val"] = target(*map_arg(args, lambda n: n.meta["val"]), **kwargs)
    return made


def _check(node: Any, name: str) -> None:
    """A body gives tensors, and leaves what it is given as it is."""
    given = node.args[0] if node.op == "output" else ()
    for value in given if isinstance(given, (tuple, list)) else (given,):
        if value is not None and not hasattr(value, "op"):
            raise UnsupportedOperator(
                f"{name} gives {value!r}, where a loop or branch may give tensors",
                where=name,
                try_=f"torch.tensor({value!r})",
            )
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    for formal, value in zip(arguments, node.args, strict=False):
        written = formal.alias_info is not None and formal.alias_info.is_write
        if written and getattr(value, "op", "") == "placeholder":
            raise UnsupportedOperator(
                f"{name} changes {value.name!r} in place ({node.target.name()}), where a loop or "
                "branch may give new tensors",
                where=name,
                try_="a state of the loop, or a result of the branch",
            )
