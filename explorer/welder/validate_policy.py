"""Validation of a user's policy: its groups of a function's kernels, or BadPolicy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import TileEdge
from explorer.ir.kernel import Kernel
from explorer.ir.program import Function
from explorer.ir.tile_rules import tile_problem
from explorer.passes.policy_call import PolicyCall
from explorer.process.user_code import a, shown
from explorer.welder.groups import Group
from explorer.welder.tiles.sized_tile import SizedTile

EXPECTED_GROUPS = "Groups of the kernels of the call"


def validate_groups(
    policy_call: PolicyCall, ask: Callable[[], object], kernels: Sequence[Group], function: Function
) -> tuple[Group, ...]:
    """Return the groups of a policy after checking every rule.

    Every kernel is in one. Each group is of kernels that pass values on to each other, and its last
    one stores. Every value that is read later is stored.
    """
    results = policy_call.collect(ask, len(kernels) + 1, EXPECTED_GROUPS)
    if len(results) > len(kernels):
        raise policy_call.refused(
            f"returned more groups than there are kernels, {len(kernels)}", EXPECTED_GROUPS
        )
    kernel_by_name = {k.name: k for k in kernels}
    groups = tuple(_group(policy_call, kernel_by_name, g) for g in results)
    names = [g.name for g in groups]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise policy_call.refused(
            f"returned two groups that both store {twice!r}", "one group a value"
        )
    grouped = {m for g in groups for m in g.members}
    lost = next((n for n in kernel_by_name if n not in grouped), None)
    if lost is not None:
        raise policy_call.refused(
            f"returned no group with the kernel {lost!r}", "every kernel", lost
        )
    for g in groups:
        _connected(policy_call, g, kernel_by_name)
        _reads(policy_call, g, kernel_by_name)
    _stored(policy_call, groups, kernel_by_name, function)
    return groups


def _group(policy_call: PolicyCall, kernel_by_name: Mapping[str, Group], result: Any) -> Group:
    """Return a group whose fields have the declared types."""
    if not isinstance(result, Group):
        raise policy_call.refused(
            f"returned {a(result)} among its groups, not a Group", EXPECTED_GROUPS, shown(result)
        )
    members, name = result.members, result.name
    if not isinstance(members, tuple) or not members:
        raise policy_call.refused(
            f"returned a group {shown(name)} without kernels", EXPECTED_GROUPS, shown(members)
        )
    for member in members:
        if member not in kernel_by_name:
            raise policy_call.refused(
                f"returned a group with an unknown kernel {shown(member)}",
                ", ".join(kernel_by_name),
                shown(member),
            )
    if len(set(members)) < len(members):
        raise policy_call.refused(f"returned a group {name!r} with a kernel twice", actual=members)
    if name != members[-1]:
        raise policy_call.refused(
            f"returned a group {shown(name)} whose last kernel, {members[-1]!r}, has another name: "
            "the last one stores",
            members[-1],
            shown(name),
        )
    _parts(policy_call, result)
    return result


def _parts(policy_call: PolicyCall, group: Group) -> None:
    for field, kind in (("args", Var), ("steps", Candidate), ("inner", TileEdge)):
        values: Any = getattr(group, field)
        wrong = next((v for v in values if not isinstance(v, kind)), None) if values else None
        if not isinstance(values, tuple) or wrong is not None:
            offender = values if wrong is None else wrong
            raise policy_call.refused(
                f"returned a group {group.name!r} with {a(offender)} among its {field}",
                f"a tuple of {kind.__name__}",
                shown(offender),
            )
    if not isinstance(group.kernel, Kernel):
        raise policy_call.refused(
            f"returned a group {group.name!r} whose kernel is {a(group.kernel)}", "a Kernel"
        )
    policy_call.check_kernel(group.kernel, group.name)
    if group.tile is not None:
        sizes = group.tile.tile if isinstance(group.tile, SizedTile) else None
        axes = {x.name: x.extent for c in group.kernel.computes for x in c.axes}
        why = "it is not a SizedTile" if sizes is None else tile_problem(sizes, axes)
        if why:
            raise policy_call.refused(
                f"returned a group {group.name!r} with an invalid tile: {why}"
            )


def _connected(policy_call: PolicyCall, group: Group, kernel_by_name: Mapping[str, Group]) -> None:
    """Check that each kernel passes its value on to a later one of the group."""
    for n, member in enumerate(group.members[:-1]):
        later = group.members[n + 1 :]
        if not any(v.name == member for m in later for v in kernel_by_name[m].args):
            raise policy_call.refused(
                f"returned a group {group.name!r} of kernels that are not connected: none of "
                f"{', '.join(later)} reads {member!r}",
                "kernels that pass values on, in order",
                group.members,
            )


def _reads(policy_call: PolicyCall, group: Group, kernel_by_name: Mapping[str, Group]) -> None:
    """Check that a group's kernel reads what its members read, and does the work of each."""
    members = [kernel_by_name[m] for m in group.members]
    expected = {v.name for m in members for v in m.args} - set(group.members[:-1])
    actual = {v.name for v in group.args}
    if expected != actual:
        text = ", ".join(sorted(expected)), ", ".join(sorted(actual))
        raise policy_call.refused(
            f"returned a group {group.name!r} that reads {text[1]}, and its kernels read {text[0]}",
            text[0],
            text[1],
            "make groups with explorer.welder.groups.merge_kernels and absorb",
        )
    try:
        done = {o for c in group.with_origins.computes for o in c.origin}
    except (IndexError, ValueError, TypeError):
        done = set()
    for m in members:
        lost = {o for c in m.with_origins.computes for o in c.origin} - done
        if lost:
            raise policy_call.refused(
                f"returned a group {group.name!r} whose kernel lacks {min(lost)}, which the "
                f"kernel {m.name!r} computes",
                try_="make groups with explorer.welder.groups.merge_kernels and absorb",
            )


def _stored(
    policy_call: PolicyCall,
    groups: Sequence[Group],
    kernel_by_name: Mapping[str, Group],
    function: Function,
) -> None:
    """Check that every value that is read outside of its group is stored by a group."""
    stored = {g.name for g in groups}
    reads = [(v.name, g.name) for g in groups for v in g.args]
    reads += [
        (v.name, b.vars[0].name)
        for b in function.body
        if not isinstance(b.expr, KernelCall)
        for v in b.reads
    ]
    reads += [(v.name, "the function's results") for v in function.outputs]
    for value, reader in reads:
        if value in kernel_by_name and value not in stored:
            raise policy_call.refused(
                f"returned no group that stores {value!r}, which {reader} reads: it is internal to "
                "another group",
                value,
            )
