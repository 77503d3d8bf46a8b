"""The arrays that a run reads and writes: the caller's where kernels can work on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import NoReturn, TypeAlias

import numpy as np

from explorer.counters import counters
from explorer.errors import BadOption, DtypeError, ShapeError
from explorer.runtime.workers.arena import address_of, aligned_array

Array = np.ndarray
Kind: TypeAlias = tuple[tuple[int, ...], np.dtype[np.generic]]


def usable(array: Array) -> Array:
    """The array itself, or a copy that kernels can read."""
    if is_usable(array):
        return array
    counters.add("arrays_made")
    array = np.asarray(array)
    copy = aligned_array(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def copied_out(found: dict[str, Array], out: Mapping[str, Array] | None) -> dict[str, Array]:
    """Results whose shapes only the run knew, in the caller's arrays where it gave some.

    Raises ShapeError and DtypeError where an array is no place for its output.
    """
    if out:
        kinds = [(a.shape, a.dtype) for a in found.values()]
        Outputs.of(tuple(found), kinds).given(out, ())
        for name, target in out.items():
            np.copyto(target, found[name])
    return {**found, **(out or {})}


def is_usable(array: Array) -> bool:
    """Whether kernels can work on the array's own bytes."""
    if not isinstance(array, np.ndarray):
        return False
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned and array.dtype.isnative)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The names of a program's outputs, and their kinds for a binding.

    `over`: by position of an output the inputs whose very memory kernels may write it into;
    `takers`: by position of an input the outputs that may be written into it.
    """

    names: Sequence[str]
    kinds: Sequence[Kind]
    position: Mapping[str, int]
    over: Mapping[int, frozenset[int]]
    takers: Mapping[int, Sequence[int]]

    @staticmethod
    def of(
        names: Sequence[str],
        kinds: Sequence[Kind],
        over: Mapping[int, frozenset[int]] = MappingProxyType({}),
    ) -> Outputs:
        """These names with these kinds."""
        takers: dict[int, list[int]] = {}
        for n, inputs in over.items():
            for at in inputs:
                takers.setdefault(at, []).append(n)
        return Outputs(names, kinds, {name: n for n, name in enumerate(names)}, over, takers)

    def fresh(self) -> list[Array]:
        """A new array for each output."""
        return [aligned_array(shape, dtype) for shape, dtype in self.kinds]

    def given(
        self, out: Mapping[str, Array], inputs: Sequence[Array], donated: Sequence[int] = ()
    ) -> tuple[list[Array], dict[int, Array]]:
        """What kernels write, by position, and the caller's arrays to copy it to afterwards.

        What kernels write shares no byte with another output, nor with an input, unless it is that
        input, may be written over it, and `out` says so or the input is donated. Raises ShapeError
        and DtypeError where an array is no place for its output, BadOption where two are one place.
        """
        targets: dict[int, Array] = {}
        for name, target in out.items():
            n = self.position.get(name, -1)
            if n < 0 or (target.shape, target.dtype) != self.kinds[n]:
                self._refuse(name, target)
            targets[n] = target
        wanted = {**targets, **self._taken_over(inputs, donated, targets)} if donated else targets
        direct = _direct(inputs, wanted, self.over)
        if len(direct) < len(wanted):
            self._refuse_shared(targets)
        if len(direct) == len(self.kinds):
            return [direct[n] for n in range(len(self.kinds))], {}
        arrays = [direct[n] if n in direct else aligned_array(*k) for n, k in enumerate(self.kinds)]
        return arrays, {n: a for n, a in targets.items() if n not in direct}

    def _taken_over(
        self, inputs: Sequence[Array], donated: Sequence[int], targets: Mapping[int, Array]
    ) -> dict[int, Array]:
        """An output for each donated input that can take one, by position."""
        out: dict[int, Array] = {}
        for at in donated:
            kind = inputs[at].shape, inputs[at].dtype
            for n in self.takers.get(at, ()):
                if n not in out and n not in targets and self.kinds[n] == kind:
                    out[n] = inputs[at]
                    break
        return out

    def _refuse_shared(self, targets: Mapping[int, Array]) -> None:
        """BadOption where elements of two of the caller's arrays are the same memory."""
        for (n, a), (m, b) in combinations(targets.items(), 2):
            if np.shares_memory(a, b):
                raise BadOption(
                    f"the arrays for the outputs {self.names[n]!r} and {self.names[m]!r} share "
                    "memory, so that one result would overwrite the other",
                    where=self.names[m],
                    try_="an array of its own for each output",
                )

    def _refuse(self, name: str, target: Array) -> NoReturn:
        if name not in self.position:
            known = ", ".join(self.names)
            raise ShapeError(f"there is no output {name!r}; the outputs are {known}", where=name)
        shape, dtype = self.kinds[self.position[name]]
        if target.shape != shape:
            raise ShapeError(
                f"the array for the output {name!r} must have shape {shape} and has {target.shape}",
                where=name,
                expected=shape,
                found=target.shape,
            )
        raise DtypeError(
            f"the array for the output {name!r} must be {dtype} and is {target.dtype}",
            where=name,
            expected=dtype,
            found=target.dtype,
        )


def _direct(
    given: Sequence[Array], targets: Mapping[int, Array], over: Mapping[int, frozenset[int]]
) -> Mapping[int, Array]:
    """Those that kernels can write: in order, the ones that share no byte with an input that they
    must not be written over, or with one before them.
    """
    writable = all([_is_writable(a) for a in targets.values()])
    if writable and not _overlap([*given, *_elsewhere(given, targets, over)]):
        return targets
    out: dict[int, Array] = {}
    seen: list[Array] = []
    for n, target in targets.items():
        allowed = over.get(n, frozenset())
        apart = _is_writable(target) and not any(np.may_share_memory(target, a) for a in seen)
        if apart and all(
            (at in allowed and _is_same_memory(target, a)) or not np.may_share_memory(target, a)
            for at, a in enumerate(given)
        ):
            out[n] = target
        seen.append(target)
    return out


def _elsewhere(
    given: Sequence[Array], targets: Mapping[int, Array], over: Mapping[int, frozenset[int]]
) -> list[Array]:
    """The targets but those that are written over an input which they may be, one for each."""
    out: list[Array] = []
    written: set[int] = set()
    for n, target in targets.items():
        for at in over.get(n, ()):
            if at not in written and _is_same_memory(target, given[at]):
                written.add(at)
                break
        else:
            out.append(target)
    return out


def _is_same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays in C order are the same elements."""
    return address_of(a) == address_of(b) and (a.shape, a.dtype) == (b.shape, b.dtype)


def _is_writable(array: Array) -> bool:
    return is_usable(array) and array.flags.writeable


def _overlap(arrays: Sequence[Array]) -> bool:
    """Whether any two arrays share a byte, if all are in C order."""
    reached = 0
    for begin, size in sorted([(address_of(a), a.nbytes) for a in arrays]):
        if begin < reached and size:
            return True
        reached = max(reached, begin + size)
    return False
