"""A number that decides something has its unit in its name, and beside it where it comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.imports import ROOT

DECIDING = ("cost", "grinder", "rammer", "roller", "tile", "welder")
UNITS = {
    "BINDINGS", "BLOCKS", "BRICKS", "BYTE", "BYTES", "CALLS", "CANDIDATES", "CHOICES", "COMPUTES",
    "CONSTANTS", "CONTRACTIONS", "CYCLES", "DEVICES", "ELEMENTS", "EPS", "EXPRESSIONS", "INPUTS",
    "INSTRUCTIONS", "KERNELS", "KINDS", "LOOPS", "MAPS", "MEETINGS", "OPERATIONS", "OPERATORS",
    "OUTPUTS", "PIECES", "PLACES", "POINTS", "PRODUCTS", "PROGRAMS", "RATIO", "READERS",
    "REGISTERS", "REPEATS", "RESULTS", "ROWS", "SHARE", "STATES", "STEPS", "SWEEPS", "TASKS",
    "TENSORS", "THREADS", "TILES", "TILINGS", "TRIPS", "UNITS", "US", "VALUES", "WAYS",
}  # fmt: skip
SOURCE = re.compile(
    r"\b(chosen|assumed|counted|measured|artifact|NNFusion|manual|section)\b|`python -m \S+",
)
GIVEN = {  # neither chosen nor measured, and what they are
    "cost/footprint.py ALIGN_BYTES": "a cache line",
    "rammer/cache_model.py ROUNDING": "of doubles",
    "roller/construct/gpu_rules.py SHARED, REGISTERS": "numbers of levels",
    "roller/construct/gpu_rules.py WORD_BYTES": "of a register",
    "roller/enumerated.py WHOLE": "a mark",
    "tile/gpu/banks/requests.py WARP, BANKS, WORD_BYTES": "of every GPU that CUDA knows",
    "tile/gpu/matrix_units.py ROWS, COLUMNS, DEPTH": "of an instruction's piece of a matrix",
    "tile/gpu/matrix_units.py LEAST_CAPABILITY": "of the instruction",
    "tile/gpu/matrix_units.py OWN": "of a lane, along the rows and the columns of such a piece",
    "tile/verify.py WORD_BYTES": "of a register",
    "welder/groups/halo.py FLOPS": "of a multiply-add",
    "welder/tiles/levels.py REGISTER_BYTES": "of a register",
}


def numbers(source: str) -> Iterator[tuple[str, str]]:
    """The module-level numbers of a file, several at once as they are, each with its comment."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        match node:
            case ast.Assign([target], value) if all(map(is_number, parts(target, value))):
                first = node.lineno - 1
                while lines[first - 1].startswith("#"):
                    first -= 1
                text = "\n".join(lines[first : node.end_lineno])
                yield ast.unparse(target).strip("()"), " ".join(re.findall("#(.*)", text))


def parts(target: ast.expr, value: ast.expr) -> list[ast.expr]:
    """What each name of an assignment is given."""
    match target, value:
        case ast.Tuple(), ast.Tuple(values):
            return values
    return [value]


def is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(int() | float() as number):
            return not isinstance(number, bool)
        case ast.UnaryOp(_, inner):
            return is_number(inner)
        case ast.BinOp(left, _, right):
            return is_number(left) and is_number(right)
    return False


def faults(source: str) -> list[str]:
    """What a file's numbers do not say."""
    found = []
    for names, comment in numbers(source):
        units = [UNITS & set(name.split("_")) for name in names.split(", ")]
        if not all(units):
            found.append(f"{names}: no unit in its name")
        if not SOURCE.search(comment):
            found.append(f"{names}: nothing says where its value comes from")
    return found


def sources() -> dict[str, str]:
    """The files of the packages that decide."""
    explorer = ROOT / "explorer"
    paths = [path for package in DECIDING for path in (explorer / package).rglob("*.py")]
    return {str(p.relative_to(explorer)): p.read_text(encoding="utf-8") for p in paths}


def test_every_number_that_decides_says_its_unit_and_its_source() -> None:
    wrong = [
        f"{file} {fault}"
        for file, source in sources().items()
        for fault in faults(source)
        if f"{file} {fault.split(':')[0]}" not in GIVEN
    ]
    assert wrong == []


def test_a_number_that_is_gone_is_no_exception_any_more() -> None:
    there = {
        f"{file} {names}" for file, source in sources().items() for names, _ in numbers(source)
    }
    assert set(GIVEN) <= there


@pytest.mark.parametrize(
    "line",
    [
        "PATIENCE = 2000  # points; chosen",
        "LEAST_ROWS = 4",
        "LEAST_ROWS = 4  # that are worth a block",
        "FEW, MOST_TILES = 2, 3  # chosen",
        "ROOM = 2 / 3  # chosen",
        "GROWN = -(1 << 4)  # chosen",
    ],
)
def test_a_number_without_unit_or_source_is_found(line: str) -> None:
    assert faults(f'"""A file."""\n{line}\n')


def test_a_comment_above_counts() -> None:
    assert not faults('"""A file."""\n\n# That are worth a block; chosen.\nLEAST_ROWS = 4\n')
