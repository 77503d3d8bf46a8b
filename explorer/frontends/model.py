"""What a frontend gives: a program at stage IMPORTED, and what the file said about it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from explorer.cached_property import cached_property
from explorer.ir.program import Program
from explorer.ir.types import Annotation
from explorer.passes.pipeline.fingerprint import program_key


@dataclass(frozen=True)
class Model:
    """A model as it was written; `program` holds its operators."""

    name: str
    path: str
    program: Program
    head: bytes = field(default=b"", repr=False)  # the file without its large tensors

    @property
    def inputs(self) -> Mapping[str, Annotation]:
        """The annotation of each input, in order."""
        return {p.name: p.type for p in self.program.main.params}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return self.program.main.output_names

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
