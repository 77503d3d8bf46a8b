"""What a frontend gives: a program at stage IMPORTED, and what the file said about it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from explorer.cached_property import cached_property
from explorer.ir.program import Binding, Program, SourceOp
from explorer.ir.types import Annotation
from explorer.passes.pipeline.fingerprint import program_key
from explorer.plain_text import counted, size
from explorer.printed import Printed


@dataclass(frozen=True)
class State:
    """A buffer that a run leaves changed: the output that it is then, and what it is at first."""

    output: str
    first: np.ndarray = field(repr=False)


MOST_KINDS = 6  # of operators that a summary names; chosen


@dataclass(frozen=True, repr=False)
class Model(Printed):
    """A model as it was written; `program` holds its operators, which have the names of lines where
    they are `python`'s. `state` are buffers that runs change: inputs of the program, by name.
    A complex input or output `z` is two values of the program, `z.real` and `z.imag`.
    """

    name: str
    path: str
    program: Program
    head: bytes = field(default=b"", repr=False)  # the file without its large tensors
    python: bool = False
    state: Mapping[str, State] = field(default_factory=dict)
    complex_inputs: tuple[str, ...] = ()
    complex_outputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.first_line, *(f"  {line}" for line in self._lines())))

    @property
    def first_line(self) -> str:
        """The name, and how large the model is."""
        constants = self.program.constants.values()
        weights = f"{size(sum(c.array.nbytes for c in constants))} of weights"
        return f"{self.name}: {counted(len(self.program.sources), 'operator')}, {weights}"

    def _lines(self) -> Iterator[str]:
        kinds = Counter(s.op for s in self.program.sources).most_common()
        named = ", ".join(f"{n:,} {kind}" for kind, n in kinds[:MOST_KINDS])
        others = len(kinds) - MOST_KINDS
        yield f"{named} and {counted(others, 'other kind')}" if others > 0 else named
        yield from (f"input {name}: {annotation}" for name, annotation in self.inputs.items())
        yield from (f"state {name}" for name in self.state)
        if self.outputs:
            yield f"outputs: {', '.join(self.outputs)}"
        for s in self.program.env.symbols:
            yield f"{s.name}: {s.low} to {'any' if s.high is None else s.high}, planned as {s.hint}"

    @property
    def inputs(self) -> Mapping[str, Annotation]:
        """The annotation of each input, in order; without the state."""
        return {p.name: p.type for p in self.program.main.params if p.name not in self.state}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in order; without the state."""
        left = {s.output for s in self.state.values()}
        return tuple(n for n in self.program.main.output_names if n not in left)

    @cached_property
    def digest(self) -> str:
        """A hash of the model's structure, bounds and every constant."""
        found = hashlib.blake2b(self.head, digest_size=16)
        if not self.head:  # it comes from no file: its operators tell it apart
            found.update(program_key(replace(self.program, constants={})).encode())
        found.update(repr(self.program.env).encode())
        for name, constant in self.program.constants.items():
            found.update(f"{name}={constant.digest};".encode())
        return found.hexdigest()

    @cached_property
    def content(self) -> str:
        """A hash of what it computes: in which lines of Python its operators stand, and what these
        lines say, is not in it.
        """
        if not self.python:
            return f"{self.digest} {program_key(replace(self.program, constants={}))}"
        numbers = {s.name: f"source {n}" for n, s in enumerate(self.program.sources)}
        functions = tuple(
            replace(f, body=tuple(_renamed(b, numbers) for b in f.body))
            for f in self.program.functions
        )
        sources = tuple(SourceOp(numbers[s.name], s.op) for s in self.program.sources)
        bare = replace(self.program, functions=functions, sources=sources)
        return replace(self, program=bare, head=b"").digest


def _renamed(binding: Binding, numbers: Mapping[str, str]) -> Binding:
    return replace(binding, origin=frozenset(numbers.get(o, o) for o in binding.origin))
