"""Arrays that a run reads and writes: the caller's where kernels can use them directly."""

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


def as_usable(array: Array) -> Array:
    """Return the array itself, or a copy that kernels can read."""
    if is_usable(array):
        return array
    counters.add("arrays_made")
    array = np.asarray(array)
    copy = aligned_array(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def copy_out(results: dict[str, Array], out: Mapping[str, Array] | None) -> dict[str, Array]:
    """Return results whose shapes only the run knew, copied to the caller's arrays where given.

    Raises:
        ShapeError: An array has the wrong shape for its output.
        DtypeError: An array has the wrong dtype for its output.
    """
    if out:
        kinds = [(a.shape, a.dtype) for a in results.values()]
        Outputs.of(tuple(results), kinds).select_arrays(out, ())
        for name, target in out.items():
            np.copyto(target, results[name])
    return {**results, **(out or {})}


def is_usable(array: Array) -> bool:
    """Return True if kernels can work on the array's own bytes."""
    if not isinstance(array, np.ndarray):
        return False
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned and array.dtype.isnative)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The names of a program's outputs, and their kinds for a binding.

    `over`: by position of an output the inputs whose memory kernels may write it into; `takers`: by
    position of an input the outputs that may be written into it.
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
        """Return outputs with these names and kinds."""
        takers: dict[int, list[int]] = {}
        for n, inputs in over.items():
            for at in inputs:
                takers.setdefault(at, []).append(n)
        return Outputs(names, kinds, {name: n for n, name in enumerate(names)}, over, takers)

    def new_arrays(self) -> list[Array]:
        """Return a new array for each output."""
        return [aligned_array(shape, dtype) for shape, dtype in self.kinds]

    def select_arrays(
        self, out: Mapping[str, Array], inputs: Sequence[Array], donated: Sequence[int] = ()
    ) -> tuple[list[Array], dict[int, Array]]:
        """Return by position the arrays that kernels write, and the caller's to copy to afterwards.

        An array that kernels write shares no byte with another output, nor with an input. The
        exception is an input that the output may overwrite, if `out` says so or the input is
        donated.

        Raises:
            ShapeError: An array has the wrong shape for its output.
            DtypeError: An array has the wrong dtype for its output.
            BadOption: Two of the caller's arrays share memory.
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
        """Return an output for each donated input that can hold one, by position."""
        out: dict[int, Array] = {}
        for at in donated:
            kind = inputs[at].shape, inputs[at].dtype
            for n in self.takers.get(at, ()):
                if n not in out and n not in targets and self.kinds[n] == kind:
                    out[n] = inputs[at]
                    break
        return out

    def _refuse_shared(self, targets: Mapping[int, Array]) -> None:
        """Refuse arrays of the caller that share memory."""
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
            names = ", ".join(self.names)
            raise ShapeError(f"there is no output {name!r}; the outputs are {names}", where=name)
        shape, dtype = self.kinds[self.position[name]]
        if target.shape != shape:
            raise ShapeError(
                f"the array for the output {name!r} must have shape {shape} and has {target.shape}",
                where=name,
                expected=shape,
                actual=target.shape,
            )
        raise DtypeError(
            f"the array for the output {name!r} must be {dtype} and is {target.dtype}",
            where=name,
            expected=dtype,
            actual=target.dtype,
        )


def _direct(
    inputs: Sequence[Array], targets: Mapping[int, Array], over: Mapping[int, frozenset[int]]
) -> Mapping[int, Array]:
    """Return the arrays that kernels can write directly.

    In order, these share no byte with an input that they must not overwrite, or with an earlier
    array.
    """
    writable = all([_is_writable(a) for a in targets.values()])
    if writable and not _overlap([*inputs, *_elsewhere(inputs, targets, over)]):
        return targets
    out: dict[int, Array] = {}
    seen: list[Array] = []
    for n, target in targets.items():
        allowed = over.get(n, frozenset())
        apart = _is_writable(target) and not any(np.may_share_memory(target, a) for a in seen)
        if apart and all(
            (at in allowed and _is_same_memory(target, a)) or not np.may_share_memory(target, a)
            for at, a in enumerate(inputs)
        ):
            out[n] = target
        seen.append(target)
    return out


def _elsewhere(
    inputs: Sequence[Array], targets: Mapping[int, Array], over: Mapping[int, frozenset[int]]
) -> list[Array]:
    """Return the targets that do not overwrite an input that they may overwrite.

    Each input excuses one target.
    """
    out: list[Array] = []
    written: set[int] = set()
    for n, target in targets.items():
        for at in over.get(n, ()):
            if at not in written and _is_same_memory(target, inputs[at]):
                written.add(at)
                break
        else:
            out.append(target)
    return out


def _is_same_memory(a: Array, b: Array) -> bool:
    """Return True if two arrays in C order are the same elements."""
    return address_of(a) == address_of(b) and (a.shape, a.dtype) == (b.shape, b.dtype)


def _is_writable(array: Array) -> bool:
    return is_usable(array) and array.flags.writeable


def _overlap(arrays: Sequence[Array]) -> bool:
    """Return True if any two of these arrays in C order share a byte."""
    reached = 0
    for begin, size in sorted([(address_of(a), a.nbytes) for a in arrays]):
        if begin < reached and size:
            return True
        reached = max(reached, begin + size)
    return False
