"""Grouping by hand: the groups that follow from a set of internal values, or the refusal.

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
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel, rename_tensors
from explorer.ir.kernels.in_place import overwritten
from explorer.ir.program import Binding, Function, Program
from explorer.welder.groups import Facts, Group, Merge, Merged, absorb, merge_kernels, single_group
from explorer.welder.model import Cut
from explorer.welder.refusals import early_refusal, illegal_merge


@dataclass(frozen=True)
class Kernels:
    """The kernels of one function before fusion, by the value that each makes."""

    function: Function
    env: ShapeEnv
    device: Device

    @staticmethod
    def around(program: Program, value: str, device: Device) -> Kernels | None:
        """Return those of the function in which a kernel makes the value."""
        for f in program.functions:
            if any(isinstance(b.expr, KernelCall) and b.name == value for b in f.body):
                return Kernels(f, program.env, device)
        return None

    @cached_property
    def bindings(self) -> Mapping[str, tuple[int, Binding]]:
        """Every kernel call, with its position."""
        return _kernel_calls(self.function)

    @cached_property
    def facts(self) -> Facts:
        """Return the facts for refusals, without prices and without edges connected by hand."""
        uses, readers, results, over = _uses(self.function)
        return Facts(self.device, self.env, _Unpriced(), uses, readers, results, {}, over)

    def readers(self, value: str) -> tuple[str, ...]:
        """Return the kernels that read a value."""
        return tuple(r for r in self.facts.readers.get(value, ()) if r in self.bindings)

    def grouped(self, members: Collection[str], inside: Collection[str]) -> tuple[Group, ...]:
        """Return the groups of some kernels in which the values `inside` are not stored.

        Each kernel in program order absorbs the producers of these values, the latest first.

        Raises:
            Apart: one of the values must be stored.
        """
        groups: dict[str, Group] = {}
        barred: dict[str, Refusal] = {}
        for name in sorted(members, key=lambda m: self.bindings[m][0]):
            groups[name] = self._absorb(self._single(name), groups, inside, barred)
        stored = [name for name in groups if name in inside]
        if stored:
            raise NotFusible(stored[0], barred.get(stored[0], _unread()))
        return tuple(groups.values())

    def grouped_as_far_as(
        self, members: Collection[str], inside: Collection[str], value: str = ""
    ) -> tuple[Group, ...]:
        """Return the groups; values that can no longer be internal are stored as well.

        Raises:
            Apart: `value` is one of them.
        """
        internal = frozenset(inside)
        while True:
            try:
                return self.grouped(members, internal)
            except NotFusible as reason:
                if reason.value == value:
                    raise
                internal = internal - {reason.value}

    def _absorb(
        self,
        group: Group,
        groups: dict[str, Group],
        inside: Collection[str],
        barred: dict[str, Refusal],
    ) -> Group:
        """Return the group after it absorbed the producers of its internal values.

        A producer that it cannot absorb may be absorbed by another group.
        """
        refused: set[str] = set()
        while True:
            names = (a.name for a in group.args if a.name in inside and a.name not in refused)
            ready = [n for n in names if n in groups]
            if not ready:
                return group
            value = max(ready, key=lambda n: groups[n].number)
            merged = self._merge(group, groups[value], value)
            if isinstance(merged, Refusal):
                refused.add(value)
                barred[value] = merged
                continue
            del groups[value]
            group = merged
            refused.clear()

    def _single(self, name: str) -> Group:
        number, binding = self.bindings[name]
        group = single_group(number, binding, binding.kernel_call, self.env)
        results = tuple(v.name for v in binding.vars)
        named = _after_values(group.kernel, tuple(a.name for a in group.args), results)
        return replace(group, kernel=named)

    def _merge(self, group: Group, producer: Group, value: str) -> Group | Refusal:
        why = early_refusal(group, producer, value, self.facts)
        if why is not None:
            return why
        arg = next(a for a in group.args if a.name == value)
        both = merge_kernels(group, producer, arg, self.env)
        why = illegal_merge(Merge(producer.kernel, group.kernel, both.tensor, both.kernel))
        if why is not None:
            return why
        both = replace(both, kernel=_named(both, value))
        return absorb(group, producer, arg, both, self.facts.device)


class NotFusible(Exception):
    """The error that a value cannot be inside of a group, with the refusal."""

    def __init__(self, value: str, why: Refusal) -> None:
        """Create the error of a value."""
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


# Pictures regroup the kernels of one function repeatedly.
_kernel_calls = by_identity(_find_kernel_calls, most=64)
_uses = by_identity(_find_uses, most=64)


def tensor_of(value: str) -> str:
    """Return the name of a value in the kernel of a group."""
    return f"value {value}"


def _after_values(kernel: Kernel, inputs: Sequence[str], outputs: Sequence[str]) -> Kernel:
    input_pairs, output_pairs = (
        zip(kernel.inputs, inputs, strict=True),
        zip(kernel.outputs, outputs, strict=True),
    )
    return rename_tensors(kernel, {t: tensor_of(v) for t, v in (*input_pairs, *output_pairs)})


def _named(both: Merged, value: str) -> Kernel:
    """Return the merged kernel with inputs named after values.

    The merge renames what both parts read.
    """
    names = {t: tensor_of(a.name) for t, a in zip(both.kernel.inputs, both.args, strict=True)}
    return rename_tensors(both.kernel, names | {both.tensor: tensor_of(value)})


def _unread() -> Refusal:
    return Refusal("readers", 0, 1, "no kernel of the group reads it")


class _Unpriced:
    """A price function for grouping by hand, which needs no prices."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        return inf

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        return inf

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        return ""
