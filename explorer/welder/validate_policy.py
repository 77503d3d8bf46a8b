"""What a policy of the user's own says of a function's kernels: groups that keep every rule, or
BadPolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import TileEdge
from explorer.ir.kernel import Kernel
from explorer.ir.program import Function
from explorer.ir.tile_rules import tile_problem
from explorer.passes.pipeline.own_policy import Asked, a, shown
from explorer.welder.groups.groups import Group
from explorer.welder.tiles.sized import Sized

GIVEN = "Groups of the kernels that it was given"


def own_groups(
    asked: Asked, ask: Callable[[], object], kernels: Sequence[Group], function: Function
) -> tuple[Group, ...]:
    """The groups of a policy: every kernel is in one, each group is of kernels that hand values on
    to each other, its last one stores, and whatever is read after that is stored.
    """
    given = asked.taken(ask, len(kernels) + 1, GIVEN)
    if len(given) > len(kernels):
        raise asked.refused(f"gave more groups than there are kernels, {len(kernels)}", GIVEN)
    known = {k.name: k for k in kernels}
    groups = tuple(_group(asked, known, g) for g in given)
    names = [g.name for g in groups]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise asked.refused(f"gave two groups that both store {twice!r}", "one group a value")
    held = {m for g in groups for m in g.members}
    lost = next((n for n in known if n not in held), None)
    if lost is not None:
        raise asked.refused(f"gave no group that holds the kernel {lost!r}", "every kernel", lost)
    for g in groups:
        _connected(asked, g, known)
        _reads(asked, g, known)
    _stored(asked, groups, known, function)
    return groups


def _group(asked: Asked, known: Mapping[str, Group], given: Any) -> Group:
    """A group in which nothing is of another type than it says."""
    if not isinstance(given, Group):
        raise asked.refused(f"gave {a(given)} among its groups", GIVEN, shown(given))
    members, name = given.members, given.name
    if not isinstance(members, tuple) or not members:
        raise asked.refused(f"gave a group {shown(name)} without kernels", GIVEN, shown(members))
    for member in members:
        if member not in known:
            raise asked.refused(
                f"gave a group with the kernel {shown(member)}, which there is not",
                ", ".join(known),
                shown(member),
            )
    if len(set(members)) < len(members):
        raise asked.refused(f"gave a group {name!r} that holds a kernel twice", found=members)
    if name != members[-1]:
        raise asked.refused(
            f"gave a group {shown(name)} whose last kernel, {members[-1]!r}, has another name: "
            "the last one stores",
            members[-1],
            shown(name),
        )
    _parts(asked, given)
    return given


def _parts(asked: Asked, given: Group) -> None:
    for field, kind in (("args", Var), ("steps", Candidate), ("inner", TileEdge)):
        values: Any = getattr(given, field)
        wrong = next((v for v in values if not isinstance(v, kind)), None) if values else None
        if not isinstance(values, tuple) or wrong is not None:
            found = values if wrong is None else wrong
            raise asked.refused(
                f"gave a group {given.name!r} with {a(found)} among its {field}",
                f"a tuple of {kind.__name__}",
                shown(found),
            )
    if not isinstance(given.kernel, Kernel):
        raise asked.refused(
            f"gave a group {given.name!r} whose kernel is {a(given.kernel)}", "a Kernel"
        )
    asked.sound_kernel(given.kernel, given.name)
    if given.tile is not None:
        sizes = given.tile.tile if isinstance(given.tile, Sized) else None
        axes = {x.name: x.extent for c in given.kernel.computes for x in c.axes}
        why = "it is no Sized" if sizes is None else tile_problem(sizes, axes)
        if why:
            raise asked.refused(f"gave a group {given.name!r} with a tile that is none: {why}")


def _connected(asked: Asked, group: Group, known: Mapping[str, Group]) -> None:
    """Each kernel hands its value on to a later one of the group."""
    for n, member in enumerate(group.members[:-1]):
        later = group.members[n + 1 :]
        if not any(v.name == member for m in later for v in known[m].args):
            raise asked.refused(
                f"gave a group {group.name!r} of kernels that are not connected: none of "
                f"{', '.join(later)} reads {member!r}",
                "kernels that hand values on, in order",
                group.members,
            )


def _reads(asked: Asked, group: Group, known: Mapping[str, Group]) -> None:
    """The kernel of a group takes what its members take, and does what each of them does."""
    members = [known[m] for m in group.members]
    wanted = {v.name for m in members for v in m.args} - set(group.members[:-1])
    found = {v.name for v in group.args}
    if wanted != found:
        text = ", ".join(sorted(wanted)), ", ".join(sorted(found))
        raise asked.refused(
            f"gave a group {group.name!r} that reads {text[1]}, and its kernels read {text[0]}",
            text[0],
            text[1],
            "make groups with explorer.welder.groups.groups.merged and taken",
        )
    try:
        done = {o for c in group.with_origins.computes for o in c.origin}
    except (IndexError, ValueError, TypeError):
        done = set()
    for m in members:
        lost = {o for c in m.with_origins.computes for o in c.origin} - done
        if lost:
            raise asked.refused(
                f"gave a group {group.name!r} whose kernel does nothing of {min(lost)}, which the "
                f"kernel {m.name!r} does",
                try_="make groups with explorer.welder.groups.groups.merged and taken",
            )


def _stored(
    asked: Asked, groups: Sequence[Group], known: Mapping[str, Group], function: Function
) -> None:
    """Whatever is read outside of the group that makes it is stored by a group."""
    kept = {g.name for g in groups}
    reads = [(v.name, g.name) for g in groups for v in g.args]
    reads += [
        (v.name, b.vars[0].name)
        for b in function.body
        if not isinstance(b.expr, KernelCall)
        for v in b.reads
    ]
    reads += [(v.name, "the function's results") for v in function.outputs]
    for value, reader in reads:
        if value in known and value not in kept:
            raise asked.refused(
                f"gave no group that stores {value!r}, which {reader} reads: it is inside of "
                "another group",
                value,
            )
