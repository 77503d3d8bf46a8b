"""Where the time of a kernel goes: an instrumented copy computes the same, and its stamps tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object_code import compile_uncached
from explorer.errors import BadOption
from explorer.measure.one_kernel import Operands, PreparedKernel
from explorer.process.sandbox import Ended
from explorer.runtime.workers.aligned_memory import address_of
from explorer.tuning import kernel_parts as inside
from explorer.tuning.compare import agree
from explorer.tuning.kernel_parts import Parts, SourcePart, TracedKernel, kernel_parts
from tests.widgets.drawn_geometry import ALL_SIZES, problems
from widgets.draw.table import sentence_text
from widgets.timed import inside_kernel

LINEAR = explorer.Options(rammer=explorer.rammer.Options(threads=1))


@pytest.fixture(scope="module")
def c() -> explorer.Compilation:
    return explorer.compile("zoo:tiny_bert", options=LINEAR)


def opened(code: KernelCode) -> Parts:
    """A kernel with everything in parts."""
    parts = Parts(code.source, frozenset({"y"}))
    while left := [s for s in parts.statements if parts.can_open(s)]:
        parts.opened.update(left)
    return parts


def again(code: KernelCode, source: str) -> KernelCode:
    made = compile_uncached(source, code.isa)
    return KernelCode(source, made, code.tile_program, code.arguments, code.isa)


def test_parts_say_what_they_do_and_where(c: explorer.Compilation) -> None:
    code = c.codes[c.binding("linear").name]
    parts = opened(code)
    told = [(p.what, p.edge) for p in parts.describe_parts()]
    assert ("find the rows", False) in told and ("multiply", False) in told
    assert ("multiply", True) in told and ("write y", True) in told
    lines = code.source.split("\n")
    for p in parts.describe_parts():
        assert ("contract" in lines[p.line - 1]) == p.what.startswith("multiply"), p
    whole = Parts(code.source, frozenset({"y"}))
    (one,) = whole.describe_parts()
    assert one.what == "multiply and write y" and lines[one.line - 1].strip().startswith("for ")


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["zoo:tiny_bert", "zoo:small_mobilevit"])
def test_every_kernel_with_stamps_has_the_same_answers(model: str) -> None:
    c = explorer.compile(model)
    for binding in c.program.kernel_calls:
        code = c.codes[binding.name]
        operands = Operands(binding.kernel_call.kernel, c.hint)
        PreparedKernel(code, operands).launch(1)
        want = {name: a.copy() for name, a in operands.outputs.items()}
        parts = opened(code)
        table = np.zeros(1 + 2 * (1 + len(parts.statements)), np.int64)
        copy = again(code, parts.stamped(address_of(table)))
        prepared = PreparedKernel(copy, operands)
        table[:] = 0
        prepared.launch(1)
        for name, array in operands.outputs.items():
            assert agree(array, want[name])  # sums may be contracted otherwise
        assert table[1] > 0 and table[2] >= code.tasks(c.hint)


def test_a_part_is_stamped_each_time_that_it_runs(c: explorer.Compilation) -> None:
    binding = c.binding("linear")
    code = c.codes[binding.name]
    parts = opened(code)
    table = np.zeros(1 + 2 * (1 + len(parts.statements)), np.int64)
    copy = PreparedKernel(
        again(code, parts.stamped(address_of(table))),
        Operands(binding.kernel_call.kernel, {"batch": 3, "seq": 61}),
    )
    table[:] = 0
    copy.launch(1)
    counts = dict(zip(parts.describe_parts(), table[4::2].tolist(), strict=True))
    by_what = {(p.what, p.edge): n for p, n in counts.items()}
    micro = binding.kernel_call.tiling.micro
    tiles, rest = divmod(61, micro.rows)  # of each of 3 tasks
    panels = 64 // micro.columns
    assert rest and by_what["find the rows", False] == 3
    assert by_what["multiply", False] == 3 * tiles * panels
    assert by_what["multiply", True] == 3 * panels
    assert by_what["write y", True] == 3 * panels * rest  # row by row


@pytest.mark.exhaustive
def test_a_part_that_is_done_many_times_over_has_most_of_the_time(
    c: explorer.Compilation,
) -> None:
    binding = c.binding("linear")
    code, kernel = c.codes[binding.name], binding.kernel_call.kernel
    rows = next(p for p in opened(code).describe_parts() if p.what == "find the rows")
    lines = code.source.split("\n")
    deep = lines[rows.line - 1].index("for ")
    end = next(
        n for n in range(rows.line, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) <= deep
    )
    loop = [" " * 4 + line for line in lines[rows.line - 1 : end]]
    more = [*lines[: rows.line - 1], " " * deep + "for _again in range(4000):", *loop, *lines[end:]]
    before = inside._measure_in_helper(code, kernel, c.hint)
    after = inside._measure_in_helper(again(code, "\n".join(more)), kernel, c.hint)

    def share(found: dict[str, object]) -> float:
        us = np.array(found["us"]).sum(0)
        at = [p[0] for p in found["parts"]].index("find the rows")  # type: ignore[attr-defined]
        return float(us[1 + at] / us.sum())

    assert share(before) < 0.1 and share(after) > 0.5


@pytest.mark.exhaustive
def test_it_is_looked_into_beside_and_says_what_it_costs(c: explorer.Compilation) -> None:
    found = explorer.kernel_parts(c, "linear")
    assert isinstance(found, TracedKernel) and found.kernel == c.binding("linear").name
    assert len(found.parts) >= 2 and found.of == c.codes[found.kernel].tasks(c.hint)
    assert sum(found.shares) == pytest.approx(1) and all(us >= 0 for row in found.us for us in row)
    assert {len(row) for row in found.us} == {1 + len(found.parts)}
    assert len(found.us) == len(found.tasks) <= inside.MOST_TASKS
    assert 0 < found.low <= found.slower <= found.high


def test_a_task_of_a_few_instructions_has_no_parts() -> None:
    @explorer.trace
    def first(x: explorer.tensor("float32", 8)):  # type: ignore[no-untyped-def,valid-type]
        return x[0] * x[1]

    c = explorer.compile(first)
    found = explorer.kernel_parts(c, c.kernels[0].name)
    assert found.parts == () and found.shares == (1.0,)
    told = inside_kernel.caption(found, "first")
    assert told.startswith(
        "first: a task is a few instructions, without parts; of an instrumented copy"
    )
    assert len(inside_kernel.table(found, "first", ()).rows) == len(found.tasks)
    for size in ALL_SIZES:
        drawn = inside_kernel.figure(found, size, "first")
        assert "between them" in drawn.text() and problems(drawn) == []
    many = replace(
        found,
        parts=tuple(SourcePart(f"part {n} of many words about what it does", n) for n in range(40)),
        us=tuple((1.0, *map(float, range(40))) for _ in found.tasks),
    )
    for size in ALL_SIZES:
        assert problems(inside_kernel.figure(many, size, "first")) == []
    first, rest, slower = map(sentence_text, inside_kernel.see(many, "first"))
    assert first == f"{39 / 781:.0%} of the time of first goes to: {many.parts[39].words}."
    assert rest == f"{1 / 781:.1%} lies between the parts." and "stamps" in slower


def test_what_has_no_code_or_does_not_end_is_told(
    c: explorer.Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadOption, match="has no code that runs here"):
        kernel_parts(explorer.compile("zoo:tiny_bert", target="h100", until="planned"), "linear")

    def slow(*_: object) -> None:
        raise Ended("took more than 60 s")

    monkeypatch.setattr(inside, "in_helper", slow)
    with pytest.raises(BadOption, match="the instrumented copy of linear took more than 60 s"):
        kernel_parts(c, "linear")
