"""The Memory policies picture: no sharing, the arena, Relax's storages, worst-case storages.

Worst-case storages have bounds in place of symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from explorer.errors import BadOption
from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.ir.stage import Stage
from explorer.memory.rows import memory_curve
from explorer.passes.policy_call import policy_name
from widgets.draw.plots import byte_unit, colours, styled
from widgets.draw.svg import Svg, fit, label, symbols_in_text, wrap_text
from widgets.draw.table import Mark, Sentence, Table, size_text
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture

PACKED, BY_SIZE, WORST = "packed", "reuse by size", "worst case"  # display names
LEFT, RIGHT = 130.0, 628.0


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy's bytes at these sizes, and as a formula if one holds for all sizes.

    `curve` is the bytes taken by each position of the launch order; `bytes` is None if the policy
    is not possible: `note` says why. `used`: it is the one that runs.
    """

    name: str
    bytes: int | None
    formula: str
    note: str
    curve: tuple[int, ...] = ()
    used: bool = False


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A value in a storage: its lifetime, how it was placed, and the proof."""

    name: str
    first: int
    last: int
    taken: str
    reason: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorageRow:
    """A storage of Relax's plan, with the values that share it over time.

    `exclusive_reason` tells why there is only one value.
    """

    name: str
    bytes: int
    formula: str
    dtype: str
    static: bool
    exclusive_reason: str
    turns: tuple[TurnRow, ...]


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """Every policy, and the storages.

    `used` are bounds, `lacking` symbols without one. `least` is the lower bound of every plan: the
    most bytes that are live at once.
    """

    policies: tuple[PolicyRow, ...]
    storages: tuple[StorageRow, ...]
    used: tuple[str, ...]
    lacking: tuple[str, ...]
    live: tuple[int, ...]
    least: int


def data(c: Compiled, sizes: Mapping[str, int], plan: MemoryPlan) -> PolicyRows:
    """Return the plans of all policies at these sizes; no new plan is timed or run."""
    options = getattr(c.options, "memory", None)
    if options is None:
        return of_plans(plan, plan if plan.policy == "arena" else None, None, None)

    def planned(policy: str, bounds: bool) -> MemoryPlan:
        return c.with_options(memory=replace(options, policy=policy, bounds=bounds)).memory(sizes)

    arena = plan if plan.policy == "arena" else planned("arena", options.bounds)
    own = "" if isinstance(options.policy, str) else policy_name(options.policy)
    return of_plans(plan, arena, planned("storages", False), planned("storages", True), own)


def of_plans(
    used: MemoryPlan,
    arena: MemoryPlan | None,
    storages: MemoryPlan | None,
    bounded: MemoryPlan | None,
    own: str = "",
) -> PolicyRows:
    """Return the rows of plans of one program.

    `used` is the plan that runs; `own` is the name of the user's own policy, if there is one.
    """
    curve = memory_curve(used)
    names = {"arena": PACKED, "storages": BY_SIZE}
    running = WORST if used.policy == "storages" and used.bounds else names.get(used.policy, "")
    naive = storages.naive_formula if storages else ""
    policies = [
        PolicyRow("no sharing", used.naive_bytes, naive, "no two values share", curve.naive)
    ]
    if arena is not None:
        note = "placed anew for each binding, in launch order"
        policies.append(_policy_row(PACKED, arena, "", note))
    if storages is not None:
        note = "planned once; buffers are reused where sizes are proved equal"
        policies.append(_policy_row(BY_SIZE, storages, storages.planned_formula, note))
    if bounded is not None:
        policies.append(_bounded(bounded))
    if own:
        running = own
        policies.append(
            _policy_row(own, used, used.planned_formula, "planned once, by your policy")
        )
    rows = tuple(
        replace(p, note=f"in use: {p.note}", used=True) if p.name == running else p
        for p in policies
    )
    source = used if own else bounded if running == WORST else storages
    return PolicyRows(
        rows,
        _storages(source) if source else (),
        bounded.bounds if bounded else (),
        bounded.unbounded if bounded else (),
        curve.live,
        min(memory_curve(p).peaks[2] for p in (used, arena, storages, bounded) if p),
    )


def _policy_row(name: str, plan: MemoryPlan, formula: str, note: str) -> PolicyRow:
    return PolicyRow(name, plan.planned_bytes, formula, note, memory_curve(plan).planned)


def _bounded(plan: MemoryPlan) -> PolicyRow:
    """Return storages with bounds in place of symbols, if there are any."""
    lacking = ", ".join(plan.unbounded)
    if plan.unbounded and not plan.bounds:
        return PolicyRow(WORST, None, "", f"no upper bound is known of {lacking}")
    suffix = f"; {lacking} has no bound" if lacking else "; the same in every binding"
    why = f"with {', '.join(plan.bounds)}" if plan.bounds else "nothing to bound"
    return _policy_row(WORST, plan, plan.planned_formula, why + suffix)


def _storages(plan: MemoryPlan) -> tuple[StorageRow, ...]:
    rows = {b.name: b for b in plan.buffers}
    return tuple(
        StorageRow(
            s.name,
            s.bytes,
            s.formula,
            s.dtype,
            s.static,
            s.exclusive_reason,
            tuple(_turns(s.values, rows)),
        )
        for s in plan.storages
    )


def _turns(values: Iterable[str], rows: Mapping[str, BufferPlacement]) -> list[TurnRow]:
    buffers = [rows[v] for v in values if v in rows]
    return [
        TurnRow(b.name, b.first, b.last, b.taken, b.reason, tuple(sorted(b.origin)))
        for b in buffers
    ]


def caption(rows: PolicyRows) -> str:
    """Compare the policy in use with the live bytes, and with the smallest policy."""
    had = [p for p in rows.policies if p.bytes is not None]
    best = min(had, key=lambda p: p.bytes or 0)
    used = next((p for p in had if p.used), best)
    mine, least = used.bytes or 0, best.bytes or 0
    above = f", {mine / rows.least - 1:.0%} more" if mine > rows.least > 0 else ""
    text = f"{size_text(rows.least)} live at once; {used.name} is in use: {size_text(mine)}{above}"
    if least == mine:
        return f"{text}; no policy takes less"
    return f"{text}; {best.name} would take {size_text(least)}"


def see(rows: PolicyRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the policy in use, the smallest, and the largest or refused."""
    had = {n: p.bytes for n, p in enumerate(rows.policies) if p.bytes is not None}
    if not had:
        return ()
    names = [Mark(p.name, f"policy:{n}") for n, p in enumerate(rows.policies)]
    least, most = min(had, key=lambda n: had[n]), max(had, key=lambda n: had[n])
    used = next((n for n in had if rows.policies[n].used), least)
    mine, live = had[used], rows.least
    above = f"{mine / live - 1:.0%} more than " if mine > live > 0 else "no more than "
    if mine > 2 * live > 0:
        above = f"{mine / live:.1f} times "
    at_once = Mark(f"the {size_text(live)} that live at once", "least")
    takes = f" is in use and takes {size_text(mine)}, {above}"
    sentences: list[Sentence] = [(names[used], takes, at_once, ".")]
    if had[least] < mine:
        sentences.append((names[least], f" would take less, {size_text(had[least])}."))
    refused = next((n for n, p in enumerate(rows.policies) if p.bytes is None), None)
    if refused is not None:
        sentences.append((names[refused], f" is not possible: {rows.policies[refused].note}."))
    elif had[most] > mine > 0:
        times = f"{size_text(had[most])}, {had[most] / mine:.3g} times as much."
        sentences.append((names[most], f" would take most, {times}"))
    return tuple(sentences)


def table(rows: PolicyRows) -> Table:
    """Return one row per policy."""
    columns = ("policy", "bytes", "in use", "formula", "what it is")
    cells = tuple(
        ("" if p.bytes is None else p.bytes, "yes" if p.used else "", p.formula, p.note)
        for p in rows.policies
    )
    named_rows = tuple((p.name, *row) for p, row in zip(rows.policies, cells, strict=True))
    return Table(columns, named_rows, (), caption(rows), see(rows))


def figure(rows: PolicyRows, symbols: Sequence[str] = ()) -> Svg:
    """Draw each policy as text with its formula, and the bounds that were used."""
    marks: list[str] = []
    y = 20.0
    for policy in rows.policies:
        y = _draw_policy(policy, symbols, marks, y) + 22
    used, lacking = ", ".join(rows.used) or "none", ", ".join(rows.lacking) or "none"
    marks += [
        label(12, y, "every buffer begins at a multiple of 64 B", "q"),
        label(12, y + 20, "Bounds used", "i"),
        label(LEFT, y + 20, fit(used, RIGHT - LEFT, mono=True), "mono"),
        label(12, y + 38, "Bounds lacking", "i"),
        label(LEFT, y + 38, fit(lacking, RIGHT - LEFT, mono=True), "mono", symbols=symbols),
    ]
    return Svg(640, y + 52, "".join(marks), f"Policies of memory: {caption(rows)}")


def _draw_policy(p: PolicyRow, symbols: Sequence[str], marks: list[str], y: float) -> float:
    """Draw a policy's name, its note, and its formula; return the last line's y."""
    marks.append(label(12, y, p.name, "i w"))
    note = f"not possible: {p.note}" if p.bytes is None else p.note
    lines = [(line, "i", symbols) for line in wrap_text(note, RIGHT - LEFT)]
    formula = f"{int(p.formula):,} B" if p.formula.isdigit() else p.formula
    speaks = symbols_in_text(p.formula, symbols)
    if formula:
        lines += [(x, "mono", speaks) for x in wrap_text(f"= {formula}", RIGHT - LEFT, mono=True)]
    for n, (line, kind, about) in enumerate(lines):
        marks.append(label(LEFT, y + 15 * n, line, kind, symbols=about))
    return y + 15 * (len(lines) - 1)


def chart(policies: PolicyRows, title: str, theme: str) -> go.Figure:
    """Draw a bar per policy, and a line at the live bytes, the lower bound of every plan."""
    c, figure, rows = colours(theme), go.Figure(), policies.policies
    keys = [f"policy:{n}{' used' * p.used}" for n, p in enumerate(rows)]
    unit, size = byte_unit(max((p.bytes or 0 for p in rows), default=0))
    figure.add_bar(
        x=[(p.bytes or 0) / size for p in rows],
        y=[p.name for p in rows],
        name="bytes taken, predicted",
        orientation="h",
        marker={
            "color": [c["ink2" if p.used else "t2"] for p in rows],
            "line": {"color": c["line2"], "width": 1},
        },
        customdata=[_words(p) for p in rows],
        meta={"k": keys},
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.add_scatter(
        x=[(p.bytes or 0) / size for p in rows],
        y=[p.name for p in rows],
        mode="text",
        text=[f" {_end(p)}" for p in rows],
        textposition="middle right",
        textfont={"color": c["ink"]},
        cliponaxis=False,
        meta={"k": keys},
        hoverinfo="skip",
        showlegend=False,
    )
    line_name = f"lives at once: {size_text(policies.least)}"
    figure.add_scatter(
        x=[policies.least / size] * 2,
        y=[rows[0].name, rows[-1].name],
        name=line_name,
        mode="lines",
        line={"color": c["bad"], "width": 1.4, "dash": "dash"},
        customdata=[f"{line_name} at most; no plan of this order takes less"] * 2,
        meta={"k": "least"},
        hovertemplate="%{customdata}<extra></extra>",
    )
    most = max((p.bytes or 0 for p in rows), default=0) / size
    figure.update_xaxes(title=f"intermediates ({unit})", range=[0, 1.3 * (most or 1)])
    figure.update_yaxes(title="policy", autorange="reversed")
    return styled(figure, theme, title, 180 + 40 * max(3, len(rows)), bargap=0.4, showlegend=True)


def _end(p: PolicyRow) -> str:
    if p.bytes is None:
        return "not possible"
    return f"{size_text(p.bytes)}{', in use' if p.used else ''}"


def _words(p: PolicyRow) -> str:
    if p.bytes is None:
        return f"{p.name}: not possible, {p.note}"
    formula = f"<br>= {p.formula} B" if p.formula and not p.formula.isdigit() else ""
    return f"{p.name}: {p.bytes:,} B; {p.note}{formula}"


def required_plan(s: OnShow) -> MemoryPlan:
    """Return the current plan; BadOption if no memory is planned."""
    plan: MemoryPlan | None = s.plan
    if plan is None:
        raise BadOption("no memory is planned yet: compile through PLANNED")
    return plan


def policy_rows(s: OnShow) -> PolicyRows:
    """Return the rows of every policy; BadOption without a plan."""
    c, sizes, plan = s.now.compiled, dict(s.now.sizes), required_plan(s)
    return s.house.cached("memory", s.now.sizes, lambda: data(c, sizes, plan))


def _draw(s: OnShow, op: str) -> Drawn:
    rows = policy_rows(s)
    symbols = tuple(b.name for b in s.now.compiled.program.env.symbols)
    return rows, figure(rows, symbols), table(rows)


PICTURE = Picture(
    name="peaks",
    title="Memory policies",
    words="The peak bytes of each placement policy for intermediates, and the live bytes.",
    stage=Stage.PLANNED,
    draw=_draw,
    chart=chart,
)
