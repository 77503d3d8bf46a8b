"""Memory over time as a plotly figure."""

from __future__ import annotations

from heapq import nlargest

import plotly.graph_objects as go

from explorer.ir.decisions.memory_plan import BufferPlacement
from widgets.draw.plots import colours, styled
from widgets.draw.table import size_text
from widgets.memory.memory_plan import MemoryRows
from widgets.memory.memory_policies import PolicyRows

MIB = 2**20
FAR = 3  # a policy this many times above the others is hidden at first
LINES = {  # of a policy: ink, width and dashes
    "no sharing": ("ink3", 1, "dash"),
    "packed": ("ink", 1.6, "solid"),
    "reuse by size": ("ink2", 1.6, "longdash"),
    "worst case": ("ink2", 2, "dot"),
}


def chart(rows_and_policies: tuple[MemoryRows, PolicyRows], title: str, theme: str) -> go.Figure:
    """Draw the live bytes of intermediates at each call, filled, and a line per policy.

    A policy's line is the bytes that it has taken by then. A line far above all others is hidden
    until its name is clicked.
    """
    (rows, policies), c, figure = rows_and_policies, colours(theme), go.Figure()
    calls = list(range(len(rows.live)))
    figure.add_scatter(
        x=calls,
        y=[count / MIB for count in rows.live],
        name="live",
        mode="lines+markers",
        line={"color": c["ink2"], "shape": "hvh", "width": 1},
        marker={"color": c["accent"], "size": 9, "opacity": 0},
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 0}},
        selectedpoints=[],
        fill="tozeroy",
        fillcolor=c["line"],
        customdata=_words(rows),
        meta={"ops": _ops(rows)},
        hovertemplate="%{customdata}<extra></extra>",
    )
    tops = {p.name: max(p.curve, default=0) for p in policies.policies}
    near = FAR * max((most for name, most in tops.items() if name != "worst case"), default=0)
    for policy in policies.policies:
        if not policy.curve:
            continue
        ink, width, dash = LINES[policy.name]
        figure.add_scatter(
            x=list(range(len(policy.curve))),
            y=[count / MIB for count in policy.curve],
            name=policy.name,
            mode="lines",
            visible="legendonly" if tops[policy.name] > near > 0 else True,
            line={"color": c[ink], "dash": dash, "width": width, "shape": "hvh"},
            customdata=[
                f"call {n}: {policy.name} has taken {size_text(count)}"
                for n, count in enumerate(policy.curve)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="call (position in the launch order)")
    figure.update_yaxes(title="intermediates (MiB)", rangemode="tozero")
    return styled(figure, theme, title, 420)


def _ops(rows: MemoryRows) -> list[list[str]]:
    """Return the operators whose values begin to live at each call."""
    ops_by_call: list[set[str]] = [set() for _ in rows.live]
    for b in (*rows.buffers, *rows.aliases):
        ops_by_call[b.first].update(b.origin)
    return list(map(sorted, ops_by_call))


def _words(rows: MemoryRows) -> list[str]:
    """Return the live bytes at each call and the largest buffers."""
    texts, alive, waiting = list[str](), list[BufferPlacement](), list(rows.buffers)[::-1]
    for call, count in enumerate(rows.live):
        while waiting and waiting[-1].first <= call:
            alive.append(waiting.pop())
        alive = [b for b in alive if call <= b.last]
        most = nlargest(3, alive, key=lambda b: b.bytes)
        largest = "".join(f"<br>{rows.label(b.name)}: {size_text(b.bytes)}" for b in most)
        texts.append(f"call {call}: {size_text(count)} in {len(alive)} buffers{largest}")
    return texts
