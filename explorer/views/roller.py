"""Roller's decisions: the tile or thread blocks of each kernel, and every candidate of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.dims import Sizes
from explorer.ir.stage import Stage
from explorer.passes.policy_call import policy_name
from explorer.plain_text import duration, table
from explorer.roller.tile_order import why_first
from explorer.views.answer import Answer
from explorer.views.candidates import candidates, reason_or_costs
from explorer.views.labels import PROGRAM, is_about, labels, shorten_rows, unknown_name

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation


@dataclass(frozen=True, slots=True)
class WeighedBlock:
    """A thread block with its predicted time alone.

    `on`: the wall uses such blocks or, before there is a wall, Roller chose it.
    """

    candidate: Candidate[Tiling]
    on: bool


def thread_blocks(c: Any, binding: str, sizes: Sizes | None = None) -> tuple[WeighedBlock, ...]:
    """Return the blocks of a kernel call, the fastest alone first; none if it has no code.

    Without a wall they are the candidates of Roller's decision.
    """
    taken = c.taken_blocks(binding, sizes) if binding else ()
    if taken:
        return tuple(WeighedBlock(x, x.value in taken) for x in c.weighed_blocks(binding, sizes))
    decision = c.program.decisions.tiling(binding)
    if decision is None or not decision.chosen.is_thread_block:
        return ()
    return tuple(WeighedBlock(x, x.value == decision.chosen) for x in decision.candidates)


def tiles(c: Compilation, op: str | None) -> Answer:
    """Return the tile of each kernel; for one operator every candidate, its cost or refusal."""
    origins, call_labels = {b.name: b.origin for b in c.program.kernel_calls}, labels(c)
    tilings, blocks = [], {}
    for t in c.program.decisions.tilings:
        if not is_about(op, t.binding, origins[t.binding]):
            continue
        if t.chosen.is_thread_block:
            blocks[t.binding] = thread_blocks(c, t.binding)
        else:
            tilings.append(t)
    if op is not None and not tilings and not blocks:
        if any(is_about(op, name, origin) for name, origin in origins.items()):
            explanation = c.explain(op)  # a kernel without thread blocks
            return Answer({"kernels": [], "none": explanation.none}, str(explanation))
        raise unknown_name(c, op, origins)
    if blocks:
        return _thread_blocks(c, blocks, origins, call_labels, op)
    policy = policy_name(c.options.roller.policy)
    data = {
        "stage": c.stage,
        "policy": policy,
        "kernels": [{**_tiling(t, origins), "called": call_labels[t.binding]} for t in tilings],
    }
    if op is None:
        rows = [
            (
                call_labels[t.binding],
                t.binding,
                t.candidates[0].label,
                duration(t.candidates[0].cost_us),
                reason_or_costs(t.candidates[0]),
            )
            for t in tilings
        ]
        heads = ("kernel", PROGRAM, "tile", ">a task", "of which")
        return Answer(data, f"policy {policy}\n\n{table(heads, shorten_rows(rows, op, 5))}")
    parts = [
        f"{call_labels[t.binding]}: {t.binding} {PROGRAM}, "
        f"from {', '.join(sorted(origins[t.binding]))}\n"
        f"{candidates(t.candidates)}{_not_fastest(c, t)}{_efficient(t)}{_measured(t)}"
        for t in tilings
    ]
    return Answer(data, "\n\n".join(parts))


def _block_chooser(c: Compilation) -> str:
    """Return the system that chose the thread blocks."""
    return "Roller" if c.stage < Stage.PLANNED else "the wall"


def _thread_blocks(
    c: Compilation,
    blocks_by_kernel: Mapping[str, Sequence[WeighedBlock]],
    origins: Mapping[str, frozenset[str]],
    call_labels: Mapping[str, str],
    op: str | None,
) -> Answer:
    """Return the thread blocks of each kernel; for one operator all weighed candidates."""
    kernels = [
        {
            "kernel": name,
            "called": call_labels[name],
            "origins": origins.get(name),
            "candidates": [
                {
                    "block": w.candidate.label,
                    "cost_us": w.candidate.cost_us,
                    "terms_us": dict(w.candidate.terms),
                    "taken": w.on,
                }
                for w in blocks
            ],
        }
        for name, blocks in blocks_by_kernel.items()
    ]
    policy = policy_name(c.options.roller.policy)
    data = {"policy": policy, "kernels": kernels}
    if op is None:
        rows = [
            (call_labels[name], name, x.label, duration(x.cost_us), reason_or_costs(x))
            for name, blocks in blocks_by_kernel.items()
            for x in (w.candidate for w in blocks if w.on)
        ]
        heads = ("kernel", PROGRAM, f"thread block of {_block_chooser(c)}", ">alone", "of which")
        return Answer(data, f"policy {policy}\n\n{table(heads, shorten_rows(rows, op, 5))}")
    parts = []
    for name, blocks in blocks_by_kernel.items():
        taken = " and ".join(w.candidate.label for w in blocks if w.on)
        head = f"{call_labels[name]}: {name} {PROGRAM}, from {', '.join(sorted(origins[name]))}"
        weighed = candidates([w.candidate for w in blocks])
        parts.append(f"{head}\n{_block_chooser(c)} took {taken}; alone on the device\n{weighed}")
    return Answer(data, "\n\n".join(parts))


def _tiling(t: TilingDecision, origins: Mapping[str, frozenset[str]]) -> dict[str, object]:
    candidates = [
        {"tile": w.label, "cost_us": w.cost_us, "terms_us": dict(w.terms), "refused": w.refused}
        for w in t.candidates
    ]
    fields: dict[str, object] = {
        "kernel": t.binding,
        "origins": origins.get(t.binding),
        "pinned": t.pinned,
        "candidates": candidates,
    }
    if t.efficient is not None:
        fields["efficient"] = t.efficient.words
    if t.measured:
        fields["measured"] = [
            {"rank": m.rank, "predicted_us": m.predicted_us, "measured_us": m.measured_us}
            for m in t.measured
        ]
    return fields


def _not_fastest(c: Compilation, t: TilingDecision) -> str:
    """Return why the first tile precedes one that the model predicts to be faster."""
    legal = [x for x in t.candidates if not x.refused]
    if t.pinned or t.measured or not legal:
        return ""
    kernel = c.binding(t.binding).kernel_call.kernel
    fastest = min(legal, key=lambda x: x.cost_us)
    reason = why_first(legal[0], fastest, kernel, c.device, c.program.env.hints)
    return f"\nthe first is as good as the fastest, {fastest.label}, and {reason}" if reason else ""


def _efficient(t: TilingDecision) -> str:
    """Return a note on the tile that the wall may run instead."""
    if t.efficient is None:
        return ""
    return f"\nwhere units are short, the wall may run {t.efficient.words}: it takes less of them"


def _measured(t: TilingDecision) -> str:
    """Tabulate the timed tiles, fastest first, beside the model's rank and time."""
    if not t.measured:
        return ""
    rows = [
        (c.label, str(m.rank), duration(m.predicted_us), duration(m.measured_us))
        for c, m in zip(t.candidates, t.measured, strict=False)
    ]
    return "\n" + table(("timed here", ">model's rank", ">predicted", ">measured"), rows)
