"""Kernels grouped by hand: the groups that a set of values inside makes, and why they cannot be.

A group's tensors are named after the program's values, so that a value can be found in the kernel
of any group that holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from explorer.cached_property import cached_property
from explorer.devices.model import Device
from explorer.ir.by_identity import by_identity
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.kernel import Kernel, rename_tensors
from explorer.ir.kernels.in_place import overwritten
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.welder.groups.groups import Facts, Group, Merge, Merged, alone, merged, taken
from explorer.welder.groups.refusals import before_merging, impossible
from explorer.welder.model import Cut


@dataclass(frozen=True)
class Kernels:
    """The kernels of one function before welding, by the value that each makes."""

    function: Function
    env: ShapeEnv
    device: Device

    @staticmethod
    def around(program: Program, value: str, device: Device) -> Kernels | None:
        """Those of the function in which a kernel makes the value."""
        for f in program.functions:
            if any(isinstance(b.expr, KernelCall) and b.name == value for b in f.body):
                return Kernels(f, program.env, device)
        return None

    @cached_property
    def bindings(self) -> Mapping[str, tuple[int, Binding]]:
        """Every kernel call, with its place."""
        return _kernel_calls(self.function)

    @cached_property
    def facts(self) -> Facts:
        """What refusals are told from; nothing is priced, and nothing put apart by hand."""
        uses, readers, results, over = _uses(self.function)
        return Facts(self.device, self.env, _Unpriced(), uses, readers, results, {}, over)

    def readers(self, value: str) -> tuple[str, ...]:
        """The kernels that read a value."""
        return tuple(r for r in self.facts.readers.get(value, ()) if r in self.bindings)

    def grouped(self, members: Collection[str], inside: Collection[str]) -> tuple[Group, ...]:
        """The groups of some kernels in which the values `inside` are not stored: each kernel in
        program order takes in what makes them, the latest first.

        Raises Apart where one of the values must be stored.
        """
        groups: dict[str, Group] = {}
        barred: dict[str, Refusal] = {}
        for name in sorted(members, key=lambda m: self.bindings[m][0]):
            groups[name] = self._absorbed(self._alone(name), groups, inside, barred)
        stored = [name for name in groups if name in inside]
        if stored:
            raise Apart(stored[0], barred.get(stored[0], _unread()))
        return tuple(groups.values())

    def grouped_as_far_as(
        self, members: Collection[str], inside: Collection[str], value: str = ""
    ) -> tuple[Group, ...]:
        """The groups; of the values that were inside, those that now cannot be are stored as well.

        Raises Apart where `value` is one of them.
        """
        kept = frozenset(inside)
        while True:
            try:
                return self.grouped(members, kept)
            except Apart as reason:
                if reason.value == value:
                    raise
                kept = kept - {reason.value}

    def _absorbed(
        self,
        group: Group,
        groups: dict[str, Group],
        inside: Collection[str],
        barred: dict[str, Refusal],
    ) -> Group:
        """The group with all that makes its inner values; what it cannot take yet another may."""
        refused: set[str] = set()
        while True:
            names = (a.name for a in group.args if a.name in inside and a.name not in refused)
            ready = [n for n in names if n in groups]
            if not ready:
                return group
            value = max(ready, key=lambda n: groups[n].number)
            found = self._joined(group, groups[value], value)
            if isinstance(found, Refusal):
                refused.add(value)
                barred[value] = found
                continue
            del groups[value]
            group = found
            refused.clear()

    def _alone(self, name: str) -> Group:
        number, binding = self.bindings[name]
        group = alone(number, binding, binding.kernel_call, self.env)
        made = tuple(v.name for v in binding.vars)
        named = _after_values(group.kernel, tuple(a.name for a in group.args), made)
        return replace(group, kernel=named)

    def _joined(self, group: Group, producer: Group, value: str) -> Group | Refusal:
        why = before_merging(group, producer, value, self.facts)
        if why is not None:
            return why
        arg = next(a for a in group.args if a.name == value)
        both = merged(group, producer, arg, self.env)
        why = impossible(Merge(producer.kernel, group.kernel, both.tensor, both.kernel))
        if why is not None:
            return why
        both = replace(both, kernel=_named(both, value))
        return taken(group, producer, arg, both, self.facts.device)


class Apart(Exception):
    """A value that cannot be inside of a group, and why."""

    def __init__(self, value: str, why: Refusal) -> None:
        self.value, self.why = value, why
        super().__init__(f"{value}: {why.words}")


def _find_kernel_calls(f: Function) -> dict[str, tuple[int, Binding]]:
    return {b.name: (n, b) for n, b in enumerate(f.body) if isinstance(b.expr, KernelCall)}


def _find_uses(
    f: Function,
) -> tuple[Counter[str], dict[str, list[str]], frozenset[str], Mapping[str, int]]:
    """Return how often each value is read, by whom, the outputs, and what is overwritten."""
    uses = Counter(v.name for b in f.body for v in b.reads)
    uses.update(v.name for v in f.outputs)
    readers: dict[str, list[str]] = {}
    for b in f.body:
        for v in dict.fromkeys(b.reads):
            readers.setdefault(v.name, []).append(b.vars[0].name)
    return uses, readers, frozenset(v.name for v in f.outputs), overwritten(f.body)


# Pictures regroup the kernels of one function again and again.
_kernel_calls = by_identity(_find_kernel_calls, most=64)
_uses = by_identity(_find_uses, most=64)


def tensor_of(value: str) -> str:
    """How a value is called in the kernel of a group."""
    return f"value {value}"


def _after_values(kernel: Kernel, inputs: Sequence[str], outputs: Sequence[str]) -> Kernel:
    given, made = zip(kernel.inputs, inputs, strict=True), zip(kernel.outputs, outputs, strict=True)
    return rename_tensors(kernel, {t: tensor_of(v) for t, v in (*given, *made)})


def _named(both: Merged, value: str) -> Kernel:
    """The kernel after merging, which gives names of its own to what both parts read."""
    names = {t: tensor_of(a.name) for t, a in zip(both.kernel.inputs, both.args, strict=True)}
    return rename_tensors(both.kernel, names | {both.tensor: tensor_of(value)})


def _unread() -> Refusal:
    return Refusal("readers", 0, 1, "no kernel of the group reads it")


class _Unpriced:
    """Roller's time of no kernel: grouping by hand asks for none."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        return inf

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        return inf

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        return ""
