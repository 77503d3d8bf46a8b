"""Code follows the device, and is printed statement by statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT, imported

CODEGEN = ROOT / "explorer" / "codegen"
HOST = re.compile(r"host|this_machine|this_cpu")
ASKS = re.compile(r"get_host_cpu|/proc/|os\.(uname|cpu_count|sched_getaffinity)|platform\.\w+\(")
FEATURE = re.compile(r"""\bhas\(\s*["']avx""")
PRINTERS = ("cpu", "cuda")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(CODEGEN.rglob("*.py")), ids=lambda p: p.stem)
def test_no_file_of_code_generation_asks_what_machine_this_is(path: Path) -> None:
    assert not [name for name in imported(path) if HOST.search(name)]
    if path.name not in HELPERS:
        assert not ASKS.search(text(path))


HELPERS = ("helper_count.py",)  # how many processes compile, not what is compiled


def test_what_a_processor_has_is_asked_in_one_place() -> None:
    places = (ROOT / "explorer").rglob("*.py")
    asking = {str(p.relative_to(ROOT / "explorer")) for p in places if FEATURE.search(text(p))}
    assert {p for p in asking if not p.startswith("devices/")} <= {"codegen/compiling.py"}
    assert FEATURE.search('if target.has("avx512f"):') and not FEATURE.search("has(feature)")


def several(function: ast.FunctionDef) -> Iterator[str]:
    """Where a printer looks at more than the statement that it was given: a second parameter that
    is one, a sequence of them by a place, two at once, or any but to print each.
    """
    kinds = [ast.unparse(a.annotation) for a in function.args.args if a.annotation]
    one = sum(kind == "Statement" for kind in kinds)
    if one > 1 or any(re.search(r"\[(tuple\[)?Statement", kind) for kind in kinds):
        yield f"{function.name} takes {', '.join(kinds)}"
    for node in ast.walk(function):
        match node:
            case ast.Subscript(ast.Name("body") | ast.Attribute(_, "body")):
                yield f"{function.name} looks into a body by place"
            case ast.Call(ast.Name("zip" | "pairwise" | "enumerate" | "groupby") as f, args):
                if any(re.search(r"\bbody\b", ast.unparse(a)) for a in args):
                    yield f"{function.name} walks a body by {f.id}"
            case ast.For(ast.Name(name), ast.Name("body") | ast.Attribute(_, "body"), body):
                plain = [s for s in body if not re.fullmatch(r"e\.depth = \d+", ast.unparse(s))]
                call = re.compile(rf"statement\(e, {name}(, first)?\)")
                if len(plain) != 1 or not call.fullmatch(ast.unparse(plain[0])):
                    yield f"{function.name} does more with a body than to print each statement"
            case ast.comprehension(_, ast.Name("body") | ast.Attribute(_, "body")):
                yield f"{function.name} gathers from a body"


def functions(source: str) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]


@pytest.mark.parametrize("target", PRINTERS)
def test_no_function_of_a_printer_looks_at_two_statements(target: str) -> None:
    found = functions(text(CODEGEN / target / "print.py"))
    assert {f.name for f in found} - {"block_lines"} == {"statement", "emit"}
    assert [problem for f in found for problem in several(f)] == []


@pytest.mark.parametrize(
    "line",
    [
        "def f(e: Emitter, s: Statement, after: Statement) -> None: ...",
        "def f(e: Emitter, rest: Sequence[Statement]) -> None: ...",
        "def f(e: Emitter, p: TileProgram) -> None:\n    if p.body[1]: ...",
        "def f(e, p):\n    for s, t in pairwise(p.body): ...",
        "def f(e, p):\n    for s in p.body:\n        if s == last: ...\n        last = s",
        "def f(e, p):\n    n = sum(isinstance(s, Fill) for s in p.body)",
    ],
)
def test_a_printer_that_looks_at_two_is_found(line: str) -> None:
    assert list(several(functions(line)[0]))
