"""Lines of a kernel's source, LLVM IR and assembly that belong to each other."""

import re

import pytest

import explorer
from tests.widgets import made_by_hand as hand
from widgets.program import linked_lines
from widgets.session.session import Session

HAND = Session(hand.HandMade())


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile("tests/data/tiny_skip.onnx"))


def test_every_language_names_the_lines_of_the_source(session: Session) -> None:
    for call in range(len(session.house.calls)):
        found = {
            language: session.answer("kernel", {"call": call, "language": language})
            for language in ("numba", "llvm", "assembly")
        }
        lines = found["numba"]["lines"]
        assert list(found["numba"]["from"]) == list(range(1, len(lines) + 1))
        for language in ("llvm", "assembly"):
            mine = found[language]
            assert len(mine["from"]) == len(mine["lines"])
            assert min(mine["from"]) >= 0 and max(mine["from"]) <= len(lines)
            assert mine["note"].startswith("This is the code that runs")
            assert mine["ops"] == found["numba"]["ops"] and len(mine["ops"]) == len(lines)


def test_what_is_declared_belongs_to_the_lines_that_call_it() -> None:
    head = "import math\nnest0 = vector_nest(1)\nnest1 = vector_nest(2)\n\n"
    source = f"{head}    nest1(x)\n    nest0(y)\n"
    assert linked_lines.declaration_groups(source) == ((2, 6), (3, 5))


def test_instructions_are_counted_by_the_line_that_they_come_from(session: Session) -> None:
    kernel = session.now.compiled.kernels[0]
    rows = linked_lines.data(kernel)
    assert [r.text for r in rows.rows] == kernel.source.rstrip("\n").split("\n")
    assert sum(r.assembly for r in rows.rows) == rows.marked[1] <= rows.counted[1]
    texts = kernel.listings.assembly.text.split("\n")
    assert rows.counted[1] == sum(bool(re.match(r"\t[a-z]", text)) for text in texts)
    assert (
        f"{rows.marked[1]:,} of {rows.counted[1]:,} assembly instructions"
        in linked_lines.link_summary(rows)
    )


def test_a_line_that_is_no_instruction_is_not_counted() -> None:
    lines = ("\tvaddps %zmm0", "  %x = add i64 1, 2", "  ret void", "\t.p2align 4", ".LBB0_1:")
    assert [linked_lines.is_instruction(line) for line in lines] == [True, True, True, False, False]
    for other in ("loop:", "; note", "}", "define void @f() {", "\t#APP", "!0 = !{}", ""):
        assert not linked_lines.is_instruction(other)


def test_a_kernel_without_known_lines_says_so() -> None:
    rows = linked_lines.data(HAND.now.compiled.kernels[0])
    assert [(r.llvm, r.assembly) for r in rows.rows] == [(0, 0), (0, 0), (0, 2)]
    assert linked_lines.link_summary(rows).endswith("Made by hand.")
