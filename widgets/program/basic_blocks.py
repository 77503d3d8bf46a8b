"""Basic blocks of a kernel's assembly or PTX: edges and loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LABEL = re.compile(r"^([.$\w]+):")
_FUNCTION = re.compile(r"^(?!\.)[\w$@?.]+:|^\{")  # where code begins: a name, or the brace of PTX
_INSTRUCTION = re.compile(r"^\s+(@!?%\w+\s+)?([a-z][\w.]*)\s*(.*)")
_TARGET = re.compile(r"[.$]\w+")
_JUMP = re.compile(r"j\w+|bra(\.\w+)?")
_ALWAYS = re.compile(r"jmp\w*|bra(\.\w+)?")
_END = re.compile(r"ret\w*|ud2|exit|trap")


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """A basic block: `lines` are the positions of its instructions in the text, from 0.

    `label` is "" if no jump leads here. `header` is the header of its innermost loop, -1 outside
    all loops; `depth` counts the loops around it.
    """

    label: str
    lines: tuple[int, ...]
    header: int = -1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """A control-flow graph: the blocks in the order of the text, the first of which is the entry.

    `edges` go from block to block; those in `back` are back edges. `loops` holds the blocks of each
    loop by its header.
    """

    blocks: tuple[BasicBlock, ...]
    edges: tuple[tuple[int, int], ...]
    back: frozenset[tuple[int, int]]
    loops: dict[int, frozenset[int]]


def flow(text: str) -> Flow:
    """Return the control-flow graph of the first function of a text; empty if it has no code."""
    cut = _cut(text.split("\n"))
    names = {label: n for n, (label, _, _) in enumerate(cut) if label}
    edges: dict[tuple[int, int], None] = {}
    for n, (_, _, end) in enumerate(cut):
        target, goes_on = end
        if goes_on and n + 1 < len(cut):
            edges[n, n + 1] = None
        if target in names:
            edges[n, names[target]] = None
    return _with_loops([(label, tuple(lines)) for label, lines, _ in cut], tuple(edges))


End = tuple[str, bool]  # the target of a block's jump, "" without one; True if it may fall through


def _cut(lines: Sequence[str]) -> list[tuple[str, list[int], End]]:
    """Cut the text into blocks of instructions, in its order."""
    blocks: list[tuple[str, list[int], End]] = []
    label, mine, inside = "", list[int](), False
    for at, line in enumerate(lines):
        if not inside:
            inside = bool(_FUNCTION.match(line))
            continue
        if line.startswith((".Lfunc_end", "}")):
            break
        if head := _LABEL.match(line):
            if mine:
                blocks.append((label, mine, ("", True)))
            label, mine = head.group(1), []
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction is None:
            continue
        mine.append(at)
        predicate, word, operands = instruction.groups()
        if _JUMP.fullmatch(word) or _END.fullmatch(word):
            target = _TARGET.search(operands) if _JUMP.fullmatch(word) else None
            always = not predicate and bool(_ALWAYS.fullmatch(word) or _END.fullmatch(word))
            blocks.append((label, mine, (target.group() if target else "", not always)))
            label, mine = "", []
    if mine:
        blocks.append((label, mine, ("", False)))
    return blocks


def _with_loops(
    cut: Sequence[tuple[str, tuple[int, ...]]], edges: tuple[tuple[int, int], ...]
) -> Flow:
    count = len(cut)
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    back = _back_edges(after)
    loops: dict[int, frozenset[int]] = {}
    for a, b in sorted(back):
        loops[b] = loops.get(b, frozenset()) | _body(a, b, before)
    blocks = []
    for n, (label, lines) in enumerate(cut):
        around = sorted((h for h, body in loops.items() if n in body), key=lambda h: len(loops[h]))
        blocks.append(BasicBlock(label, lines, around[0] if around else -1, len(around)))
    return Flow(tuple(blocks), edges, back, loops)


def _back_edges(after: Sequence[Sequence[int]]) -> frozenset[tuple[int, int]]:
    """Return the back edges: without them the graph is acyclic."""
    back_edges, state = set(), [0] * len(after)  # 0: not met, 1: on the way here, 2: done
    for root in range(len(after)):
        stack = [(root, 0)] if not state[root] else []
        while stack:
            node, place = stack.pop()
            state[node] = 1
            for n in range(place, len(after[node])):
                following = after[node][n]
                if state[following] == 1:
                    back_edges.add((node, following))
                elif not state[following]:
                    stack += [(node, n + 1), (following, 0)]
                    break
            else:
                state[node] = 2
    return frozenset(back_edges)


def _body(last: int, header: int, before: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return the blocks of a natural loop: those that reach its end without passing its header."""
    body, todo = {header}, [last]
    while todo:
        node = todo.pop()
        if node not in body:
            body.add(node)
            todo += before[node]
    return frozenset(body)
