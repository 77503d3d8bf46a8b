"""What threads ask of banks is what their source does, thread by thread."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda import bank_accesses as banks
from explorer.codegen.cuda.assemble import assemble, why_not
from explorer.codegen.cuda.bank_accesses import BlockAccesses, accesses
from explorer.codegen.cuda.build import BlockCode
from explorer.tile.gpu.bank_accesses import cycles_of
from tests.codegen.cases import linear
from tests.codegen.cuda.launched import A100, code_of

Request = dict[int, int]  # thread -> element


def lanes(first: Iterable[int], count: int = 1) -> np.ndarray:
    return np.array(list(first), np.int64)[:, None] + np.arange(count)


@pytest.mark.parametrize(
    ("words", "lane_bytes", "cycles", "least"),
    [
        (lanes(range(32)), 4, 1, 1),
        (lanes([5] * 32), 4, 1, 1),  # one word for all
        (lanes(range(0, 64, 2)), 4, 2, 1),
        (lanes(range(0, 1024, 32)), 4, 32, 1),
        (lanes(range(0, 1056, 33)), 4, 1, 1),  # padded by one
        (lanes([0, 32, *[-1] * 30]), 4, 2, 1),  # threads that do nothing ask for nothing
        (lanes(range(0, 64, 2), 2), 8, 2, 2),
        (lanes([0, 1] * 16, 2), 8, 2, 2),
        (lanes(range(0, 1024, 32), 2), 8, 32, 2),
        (lanes(range(0, 128, 4), 4), 16, 4, 4),
        (lanes([0] * 32, 4), 16, 4, 4),
        (lanes(range(0, 256, 8), 4), 16, 8, 4),
        (lanes(n // 4 for n in range(32)), 1, 1, 1),
    ],
)
def test_a_request_takes_a_cycle_for_each_word_of_one_bank(
    words: np.ndarray, lane_bytes: int, cycles: int, least: int
) -> None:
    words[words[:, 0] < 0] = -1
    assert cycles_of(words, lane_bytes) == ((cycles,), (least,))


class Recorder:
    """An array of one thread: which line asked for which element, in which trips."""

    def __init__(self, name: str, trips: dict[int, int], seen: list[tuple[Any, ...]]) -> None:
        self.name, self.trips, self.seen = name, trips, seen

    def __getitem__(self, at: Any) -> Any:
        self._note("r", at)
        return np.float32(1)

    def __setitem__(self, at: Any, value: Any) -> None:
        self._note("w", at)

    def _note(self, kind: str, at: Any) -> None:
        line = sys._getframe(2).f_lineno
        self.seen.append((line, self.name, kind, tuple(sorted(self.trips.items())), int(at)))


class Counted(ast.NodeTransformer):
    """Loops that tell which trip they are in."""

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        args: list[ast.expr] = [ast.Constant(node.lineno), node.iter]
        node.iter = ast.copy_location(ast.Call(ast.Name("_trips", ast.Load()), args, []), node)
        return node


def thread(code: BlockCode, number: int, block: int = 0) -> list[tuple[Any, ...]]:
    """One thread, alone, in plain Python: what it asks for."""
    lines = [
        "" if re.match(r"(import|from|@cuda)", line) else line for line in code.source.split("\n")
    ]
    tree = ast.fix_missing_locations(Counted().visit(ast.parse("\n".join(lines))))
    trips: dict[int, int] = {}
    seen: list[tuple[Any, ...]] = []

    def counted(loop: int, values: Iterable[int]) -> Iterator[int]:
        for n, value in enumerate(values):
            trips[loop] = n
            yield value
        trips.pop(loop, None)

    shared: list[str] = []
    names = [n.targets[0].id for n in ast.walk(tree) if _makes_shared(n)]  # type: ignore[attr-defined]

    def named(*_: Any) -> Recorder:
        shared.append("")
        return Recorder(names[len(shared) - 1], trips, seen)

    one = SimpleNamespace(x=number)
    cuda = SimpleNamespace(
        blockIdx=SimpleNamespace(x=block),
        threadIdx=one,
        shared=SimpleNamespace(array=named),
        syncthreads=lambda: None,
        syncwarp=lambda: None,
        shfl_xor_sync=lambda mask, value, away: value,
    )
    whole = dict.fromkeys(("int8", "int16", "int32", "int64", "uint32", "uint64"), int)
    floats = dict.fromkeys(("float16", "float32", "float64"), np.float32)
    known: dict[str, Any] = {"cuda": cuda, "math": math, "boolean": bool, "_trips": counted}
    known |= {**whole, **floats, "libdevice": Anything()}
    known["load4"] = lambda array, at: tuple(array[at + n] for n in range(4))
    with np.errstate(all="ignore"):
        exec(compile(tree, "<block>", "exec"), known)
        known["kernel"](*(Recorder(t.local, trips, seen) for t in code.tensors))
    return seen


class Anything:
    def __getattr__(self, name: str) -> Any:
        return lambda *args: np.float32(1)


def _makes_shared(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and "cuda.shared.array" in ast.unparse(node.value)


def waits(requests: list[Request], lane_bytes: int) -> int:
    """The longest that a warp waits for one of these, counted word by word."""
    count, longest = max(1, lane_bytes // 4), 0
    for request in requests:
        by_warp: dict[int, int] = defaultdict(int)
        for first in range(0, 1 + max(request), 128 // max(4, lane_bytes)):
            asked = [
                e * 4 // 4 + n
                for t, e in request.items()
                if first <= t < first + 128 // max(4, lane_bytes)
                for n in range(count)
            ]
            by_warp[first // 32] += max(
                (len({w for w in asked if w % 32 == bank}) for bank in range(32)), default=0
            )
        longest = max(longest, *by_warp.values())
    return longest


@pytest.fixture(scope="module")
def blocks() -> dict[str, BlockCode]:
    found = {}
    for model, target in (("zoo:small_bert", "h100"), ("zoo:tiny_bert", "a100"), (RESNET, "v100")):
        c = explorer.compile(model, target=target, until="planned")
        found |= {f"{target} {b.name}": b.code for b in c.blocks if b.code is not None}
    return found


RESNET = "tests/data/tiny_resnet18.onnx"
ASKED = (
    "h100 /layer.0/attention/query/Add_output_0",
    "h100 /embeddings/norm/LayerNormalization_output_0",
    "a100 linear",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ASKED)
def test_every_access_is_what_its_threads_do_one_by_one(
    blocks: dict[str, BlockCode], name: str
) -> None:
    code = blocks[name]
    found = accesses(code, block=1)
    assert found.exact and not found.unknown and found.accesses
    requests: dict[tuple[Any, ...], Request] = defaultdict(dict)
    outputs: dict[int, int] = {}
    inputs = {t.local for t in code.tensors}
    for t in range(code.threads):
        for line, array, kind, trips, at in thread(code, t, block=1):
            if array in inputs:
                if kind == "w":
                    outputs[at] = t
                continue
            requests[line, array, kind, trips][t] = at
    by_line: dict[tuple[int, str, str], list[Request]] = defaultdict(list)
    for (line, array, kind, _), request in requests.items():
        by_line[line, array, kind].append(request)
    joined = 0
    for a in found.accesses:
        mine = by_line.pop((a.line, a.array, "w" if a.store else "r"))
        assert a.times == len(mine)
        assert max(a.cycles) == waits(mine, a.lane_bytes), a
        joined += a.lane_bytes // 4 - 1 if a.lane_bytes > 4 else 0
    assert len(by_line) == joined  # what is left are the further words of an access
    ((tensor, (index, owner)),) = found.owners.items()
    assert tensor in inputs and dict(zip(index.tolist(), owner.tolist())) == outputs


def test_rows_that_begin_in_one_bank_meet_there(blocks: dict[str, BlockCode]) -> None:
    code = blocks[ASKED[0]]
    before = next(a for a in accesses(code).accesses if a.store)
    assert before.array == "t4_x0_0" and max(before.cycles) == 1
    line = code.source.split("\n")[before.line - 1]
    (step,) = re.findall(r"r2(?:_p)? \* \d+", line)
    narrow = replace(code, source=code.source.replace(step, f"{step.split(' ')[0]} * 32"))
    after = next(a for a in accesses(narrow).accesses if a.store)
    assert max(after.cycles) >= 8 and after.words.tolist() != before.words.tolist()


@pytest.mark.exhaustive
def test_every_element_of_an_output_has_one_thread(blocks: dict[str, BlockCode]) -> None:
    code = blocks["a100 linear"]
    every: list[int] = []
    for block in range(code.grid):
        ((_, (index, owner)),) = accesses(code, block).owners.items()
        assert set(owner.tolist()) <= set(range(code.threads))  # some may copy alone
        every += index.tolist()
    assert sorted(every) == list(range(len(every)))


def test_a_long_block_is_evaluated_in_part_with_the_same_cycles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = code_of(linear(64, 512, 256, "relu", {}), A100)
    whole = accesses(code)
    monkeypatch.setattr(banks, "MOST_REQUESTS", 100)
    monkeypatch.setattr(banks, "FEW", 1)
    part = accesses(code)
    assert whole.exact and not part.exact

    def told(found: BlockAccesses) -> list[Any]:
        return [(a.line, a.array, a.store, a.cycles) for a in found.accesses]

    assert told(part) == told(whole)
    assert sum(a.times for a in part.accesses) < sum(a.times for a in whole.accesses)


def test_loads_of_several_words_are_those_of_the_compiler(blocks: dict[str, BlockCode]) -> None:
    c = explorer.compile("zoo:small_bert", target="h100", until="planned")
    if why := why_not(c.device):
        pytest.skip(why)
    for name in ASKED:
        code = blocks[name]
        ptx = assemble(code, c.device).ptx
        made = {int(n) for n in re.findall(r"ld\.shared\.v(\d)\.\w+", ptx)}
        wide = {a.lane_bytes // 4 for a in accesses(code).accesses if not a.store}
        assert made == wide - {1}
