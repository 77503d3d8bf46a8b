"""A pass is added by `@explorer.compiler_pass(name, after=...)` in any file or cell, or as one line
of `explorer.compiler.pipeline`'s pipeline; its fields are its options.
"""

from dataclasses import dataclass, field, replace

import pytest

import explorer
from explorer.ir.program import Program
from explorer.ops.elementwise import call, unary
from tests.architecture.conftest import FLOAT, File, Shell
from tests.architecture.house import knob, program
from widgets.session.session import Session


@pytest.fixture
def path(file: File) -> str:
    explorer.operator(
        unary("Twice", lambda site, x, dtype: call("add", x, x), lambda attrs, args: args[0] * 2),
        domain="own",
    )

    @explorer.compiler_pass("rename", after="legalise to kernels")
    @dataclass(frozen=True)
    class Rename:
        """Give the program another name."""

        times: int = field(default=1, metadata={"values": (1, 2, 3)})

        def __call__(self, program: Program) -> Program:
            return replace(program, name="again" * self.times)

    return file("Twice", FLOAT, ("n", 5), ("n", 5))


def test_the_house_has_its_step_and_its_knobs(path: str) -> None:
    session = Session(explorer.compile(path, check=True))
    assert session.now.compiled.snapshot("rename").checked is True
    assert "Twice" not in program(session, "rename")
    assert knob(session, "pass rename")["labels"] == ["off", "on"]
    assert knob(session, "pass rename.times")["labels"] == ["1", "2", "3"]
    session.answer("turn", {"knob": "pass rename.times", "index": 2})
    assert session.now.compiled.program.name == "again" * 3
    session.answer("turn", {"knob": "pass rename", "index": 0})
    assert session.now.compiled.program.name != "again" * 3


def test_the_shell_has_its_step_and_sets_its_option(path: str, shell: Shell) -> None:
    told = shell("compile", path, "--check", "--set", "rename.times=2")
    assert "rename" in told and "WRONG" not in told
    assert "--set rename.times=1" in shell_help(shell)


def shell_help(shell: Shell) -> str:
    from explorer.cli.arguments import Parser, model_flags

    parser = Parser("compile", "")
    model_flags(parser)
    return parser.format_help()
