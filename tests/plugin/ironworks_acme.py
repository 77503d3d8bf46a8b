"""What another distribution brings: a pass with an option, and policies of three systems."""

from dataclasses import dataclass, replace
from pathlib import Path

import explorer
from explorer.rammer.wavefront import op_by_op
from explorer.roller.policy import candidates


@explorer.compiler_pass("acme rename", paper="none", after="legalise to kernels")
@dataclass(frozen=True)
class Rename:
    """Give the program another name."""

    name: str = "acme"
    times: int = 1

    def __call__(self, program):
        return replace(program, name=self.name * self.times)


def one_after_another(facts):
    return op_by_op(facts)


def every_tile(kernel, device, env, sizes):
    return candidates(kernel, device, env, sizes, 10)


def alone(kernels, facts):
    return kernels


SHEET = Path(__file__).with_name("acme.toml")
