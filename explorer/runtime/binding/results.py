"""The arrays that a run reads and writes: the caller's where kernels can work on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from explorer.counters import counters
from explorer.errors import DtypeError, ShapeError
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
    """The names of a program's outputs, and their kinds for a binding."""

    names: Sequence[str]
    kinds: Sequence[Kind]
    position: Mapping[str, int]

    @staticmethod
    def of(names: Sequence[str], kinds: Sequence[Kind]) -> Outputs:
        """These names with these kinds."""
        return Outputs(names, kinds, {name: n for n, name in enumerate(names)})

    def fresh(self) -> list[Array]:
        """A new array for each output."""
        return [aligned_array(shape, dtype) for shape, dtype in self.kinds]

    def given(
        self, out: Mapping[str, Array], inputs: Sequence[Array]
    ) -> tuple[list[Array], dict[int, Array]]:
        """What kernels write, by position, and the caller's arrays to copy it to afterwards.

        What kernels write shares no byte with an input, or with another output. Raises ShapeError
        and DtypeError where an array is no place for its output.
        """
        targets: dict[int, Array] = {}
        for name, target in out.items():
            n = self.position.get(name, -1)
            if n < 0 or (target.shape, target.dtype) != self.kinds[n]:
                self._refuse(name, target)
            targets[n] = target
        direct = _direct(inputs, targets)
        if len(direct) == len(self.kinds):
            return [direct[n] for n in range(len(self.kinds))], {}
        arrays = [direct[n] if n in direct else aligned_array(*k) for n, k in enumerate(self.kinds)]
        return arrays, {n: a for n, a in targets.items() if n not in direct}

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


def _direct(given: Sequence[Array], targets: Mapping[int, Array]) -> Mapping[int, Array]:
    """Those that kernels can write, and that share no byte with an input or one before them."""
    taken = [*targets.values()]
    if all([_is_writable(a) for a in taken]) and not _overlap([*given, *taken]):
        return targets
    out: dict[int, Array] = {}
    seen = list(given)
    for n, target in targets.items():
        if _is_writable(target) and not any(np.may_share_memory(target, a) for a in seen):
            out[n] = target
        seen.append(target)
    return out


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
