"""Models as read by a frontend: a program at stage IMPORTED, and facts of its source."""

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
class StateBuffer:
    """A buffer that a run changes: the output that holds its new value, and its initial value."""

    output: str
    first: np.ndarray = field(repr=False)


MOST_KINDS = 6  # kinds of operators that a summary lists; chosen


@dataclass(frozen=True, repr=False)
class Model(Printed):
    """A model as its author wrote it.

    `program` holds its operators; for a `python` model they are named after source lines. `state`
    maps inputs of the program to buffers that runs change. A complex input or output `z` is two
    values of the program, `z.real` and `z.imag`.
    """

    name: str
    path: str
    program: Program
    head: bytes = field(default=b"", repr=False)  # the file without its large tensors
    python: bool = False
    state: Mapping[str, StateBuffer] = field(default_factory=dict)
    complex_inputs: tuple[str, ...] = ()
    complex_outputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a summary: operators, inputs, outputs and bounds."""
        return "\n".join((self.first_line, *(f"  {line}" for line in self._lines())))

    @property
    def first_line(self) -> str:
        """The name, the number of operators, and the size of the weights."""
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
        """The annotation of each input in order, without the state."""
        return {p.name: p.type for p in self.program.main.params if p.name not in self.state}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs in order, without the state."""
        left = {s.output for s in self.state.values()}
        return tuple(n for n in self.program.main.output_names if n not in left)

    @cached_property
    def digest(self) -> str:
        """Hash the model's structure, bounds and every constant."""
        hasher = hashlib.blake2b(self.head, digest_size=16)
        if not self.head:  # not from a file: hash its operators
            hasher.update(program_key(replace(self.program, constants={})).encode())
        hasher.update(repr(self.program.env).encode())
        for name, constant in self.program.constants.items():
            hasher.update(f"{name}={constant.digest};".encode())
        return hasher.hexdigest()

    @cached_property
    def content(self) -> str:
        """Hash the computation; the text and positions of Python source lines are left out."""
        if not self.python:
            return f"{self.digest} {program_key(replace(self.program, constants={}))}"
        numbers = {s.name: f"source {n}" for n, s in enumerate(self.program.sources)}
        functions = tuple(
            replace(f, body=tuple(_rename_origins(b, numbers) for b in f.body))
            for f in self.program.functions
        )
        sources = tuple(SourceOp(numbers[s.name], s.op) for s in self.program.sources)
        bare = replace(self.program, functions=functions, sources=sources)
        return replace(self, program=bare, head=b"").digest


def _rename_origins(binding: Binding, numbers: Mapping[str, str]) -> Binding:
    return replace(binding, origin=frozenset(numbers.get(o, o) for o in binding.origin))
