"""Search over the tiles of one kernel: the order of trials, predicted and measured times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from time import perf_counter
from typing import Any

import plotly.graph_objects as go

from explorer.devices.model import Device
from explorer.errors import AnswerMismatch
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.stage import Stage
from explorer.measure.compare import Measurement
from explorer.measure.one_kernel import Operands, prepare
from explorer.plain_text import counted
from explorer.roller.tiling_space import space_of
from explorer.roller.weigh_tiles import weigh
from explorer.tuning.compare import agree
from explorer.tuning.tile_search import evolve
from widgets.draw.plots import colours, spread_axis, styled
from widgets.draw.table import Mark, Sentence, Table, time_text
from widgets.model.compiled import COLUMNS, Arrays, cells, measured_text, whiskers
from widgets.model.house import House
from widgets.model.knobs import Setting, threads
from widgets.model.picture import Clock, Drawn, OnShow, Picture, placeholder
from widgets.roller.tiled_kernel import TiledKernel
from widgets.roller.view import TILES, tiled_kernel

MODEL, SEARCH = "the model's order", "evolutionary search"
FIRST, MORE, SEED = 8, 24, 1  # trials of each
SECONDS = 0.03  # of each trial, after it is compiled
NAME = "search"
SYMBOLS = {MODEL: "circle", SEARCH: "diamond"}
KEYS = {MODEL: "measured", SEARCH: "measured evolved"}
NAMES = {MODEL: "as the model ranks", SEARCH: "by evolution"}


@dataclass(frozen=True, slots=True)
class Trial:
    """One tile that was tried; `seconds` includes its compilation."""

    tiling: Tiling
    by: str
    modelled_us: float
    measured: Measurement
    seconds: float


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A tile in the order of trials; before any trial, in the model's order.

    `rank` is its position among the tiles to choose from, -1 if it is not one of them.
    """

    tile: str
    by: str
    modelled_us: float
    measured: Measurement | None
    seconds: float
    rank: int
    used: bool


@dataclass(frozen=True, slots=True)
class SearchRows:
    """The tiles tried for one kernel, in order."""

    kernel: str
    device: str
    own: bool
    threads: int
    trials: tuple[TrialRow, ...]
    ops: tuple[str, ...]

    @property
    def tried(self) -> tuple[TrialRow, ...]:
        """The trials that were measured."""
        return tuple(t for t in self.trials if t.measured)

    @property
    def best_us(self) -> tuple[float, ...]:
        """The least measured time after each trial."""
        return tuple(accumulate((t.measured.median_us for t in self.tried if t.measured), min))

    @property
    def first(self) -> TrialRow | None:
        """The model's guess: its first tile, if that was measured."""
        return next((t for t in self.tried if t.by == MODEL), None)

    @property
    def best(self) -> TrialRow | None:
        """The fastest trial."""
        times = [(t.measured.median_us, n) for n, t in enumerate(self.tried) if t.measured]
        return self.tried[min(times)[1]] if times else None


def data(rolled: TiledKernel, threads: int, tried: Sequence[Trial]) -> SearchRows:
    """Return the trials; without trials, the tiles to choose from in the model's order."""
    ranks = {c.tiling: n for n, c in enumerate(rolled.choices) if c.tiling is not None}
    rows = tuple(
        TrialRow(
            t.tiling.words,
            t.by,
            t.modelled_us,
            t.measured,
            t.seconds,
            ranks.get(t.tiling, -1),
            ranks.get(t.tiling, -1) == rolled.rank,
        )
        for t in tried
    ) or tuple(
        TrialRow(c.label, MODEL, c.modelled_us, None, 0.0, n, n == rolled.rank)
        for n, c in enumerate(rolled.choices)
    )
    return SearchRows(rolled.title, rolled.device.name, rolled.own, threads, rows, rolled.ops)


def search(
    kernel: Kernel,
    decision: TilingDecision,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    threads: int,
) -> Iterator[tuple[Trial, ...]]:
    """Try the model's best tiles, then an evolutionary search over all legal ones.

    Each is compiled and timed alone, one after another. Every result is compared with the first
    one's. Raises AnswerMismatch if a tile gives another result.
    """
    here = replace(device, units=threads)
    done, operands = list[Trial](), Operands(kernel, sizes)
    expected = None

    def tried(tiling: Tiling, by: str) -> Trial:
        nonlocal expected
        begin = perf_counter()
        ready = prepare(kernel, tiling, operands, device, threads, env)
        ready.launch(1)
        outputs = {name: array.copy() for name, array in operands.outputs.items()}
        expected = expected or outputs
        if not all(agree(outputs[name], array) for name, array in expected.items()):
            raise AnswerMismatch(f"two tiles of {kernel.name} give different results")
        took = ready.measure(SECONDS)
        modelled = weigh(kernel, tiling, here, env, sizes).cost_us
        return Trial(tiling, by, modelled, took, perf_counter() - begin)

    legal = [c.value for c in decision.candidates if not c.refused]
    for tiling in [t for t in legal if isinstance(t, Tiling)][:FIRST]:
        done.append(tried(tiling, MODEL))
        yield tuple(done)
    trials = {t.tiling: t for t in done}

    def trial(tiling: Tiling, best_us: float) -> tuple[float, float]:
        if tiling not in trials:
            trials[tiling] = tried(tiling, SEARCH)
            done.append(trials[tiling])
        return trials[tiling].measured.median_us, trials[tiling].seconds

    for _ in evolve(space_of(kernel, here, env, sizes), MORE, trial, SEED):
        yield tuple(done)


def caption(rows: SearchRows) -> str:
    """Return the number of trials, and how far the model's guess is from the best."""
    on = f"{rows.kernel} on {rows.device}"
    first, best = rows.first, rows.best
    if first is None or best is None or not first.measured or not best.measured:
        text = f"{on}: {counted(len(rows.trials), 'tile')} predicted"
        return f"{text}, none tried yet" if rows.own else f"{text}; a data sheet cannot be timed"
    spent = sum(t.seconds for t in rows.tried)
    guess, least = first.measured, best.measured
    verdict = "the model's guess is the best of them"
    if best is not first and guess.low_us <= least.high_us:
        verdict = f"the best, {best.tile}, is not told apart from the model's guess"
    elif best is not first:
        low, high = guess.low_us / least.high_us, guess.high_us / least.low_us
        verdict = (
            f"the model's guess took {guess.median_us / least.median_us:.2f} times as long "
            f"({low:.2f} to {high:.2f}) as the best, {best.tile}"
        )
    return (
        f"{on}, {counted(rows.threads, 'thread')}: {counted(len(rows.tried), 'tile')} timed "
        f"alone, one after another, in {spent:.1f} s; {verdict}"
    )


def see(rows: SearchRows) -> tuple[Sentence, ...]:
    """Return the sentences.

    The best measured tile beside the model's guess, and the gain of the search. Before any trial,
    the model's ranking of the tiles.
    """
    first, best = rows.first, rows.best
    if first is None or best is None or not first.measured or not best.measured:
        return _ranked(rows)
    guess_time, best_time = first.measured, best.measured
    least, guess = (
        Mark(time_text(best_time.median_us), "least"),
        Mark(time_text(guess_time.median_us), "guess"),
    )
    place = Mark(
        f"trial {rows.trials.index(best) + 1}", f"measured trial:{rows.trials.index(best)}"
    )
    sentences: list[Sentence] = []
    if best is first:
        sentences.append(
            (
                "The model's guess, ",
                guess,
                f", is the best of {counted(len(rows.tried), 'tile')}.",
            )
        )
    else:
        times = f", {guess_time.median_us / best_time.median_us:.2f} times as long."
        same = guess_time.low_us <= best_time.high_us
        unsure = " The clock cannot tell them apart." if same else ""
        sentences.append(("The best tile takes ", least, ", ", place, "."))
        sentences.append(("The model's guess takes ", guess, f"{times}{unsure}"))
    evolved = sum(t.by == SEARCH for t in rows.tried)
    spent = f"{sum(t.seconds for t in rows.tried):.1f} s"
    if evolved:
        share = Mark(f"{evolved} of {counted(len(rows.tried), 'tile')}", "evolved")
        sentences.append((share, f" came from an evolutionary search; all took {spent}."))
    return tuple(sentences)


def _ranked(rows: SearchRows) -> tuple[Sentence, ...]:
    """Return the model's ranking of tiles that are not timed."""
    if not rows.trials:
        return ()
    tiles = Mark(counted(len(rows.trials), "tile"), "predicted")
    times = [t.modelled_us for t in rows.trials]
    least, most = times.index(min(times)), times.index(max(times))
    ends = [Mark(time_text(times[n]), f"predicted trial:{n}") for n in (least, most)]
    why = "None is timed yet." if rows.own else "A data sheet cannot be timed."
    if least == most:
        return (("The model predicts ", ends[0], " for ", tiles, "."), (why,))
    return (("The model predicts ", ends[0], " to ", ends[1], " for ", tiles, "."), (why,))


def words(n: int, t: TrialRow) -> str:
    """Describe a trial in a sentence."""
    text = f"{n + 1}: {t.tile}; predicted {time_text(t.modelled_us)}"
    if t.measured:
        text += f", {measured_text(t.measured)}"
    return f"{text}{', current' if t.used else ''}; by {t.by}"


def table(rows: SearchRows) -> Table:
    """Return one row per trial."""
    columns = (
        "trial", "tile", "by", "predicted µs", *COLUMNS, "best so far", "seconds",
    )  # fmt: skip
    best = rows.best_us
    cells_of_rows = tuple(
        (
            n + 1,
            t.tile,
            t.by,
            round(t.modelled_us, 3),
            *cells(t.measured),
            round(best[n], 3) if best else "",
            round(t.seconds, 2) if t.measured else "",
        )
        for n, t in enumerate(rows.trials)
    )
    return Table(
        columns, cells_of_rows, tuple(rows.ops for _ in cells_of_rows), caption(rows), see(rows)
    )


def chart(rows: SearchRows, title: str, theme: str) -> go.Figure:
    """Draw the trials in order: predicted times outlined, measured times filled with intervals.

    Also the best so far, and the model's guess.
    """
    c, figure = colours(theme), go.Figure()
    _modelled(figure, rows, c)
    for by in SYMBOLS:
        _measured(figure, rows, by, c)
    best, first = rows.best_us, rows.first
    if best:
        figure.add_scatter(
            x=[n + 1 for n in range(len(best))],
            y=best,
            name="best so far",
            mode="lines",
            line={"color": c["ink"], "width": 1.6, "shape": "hv"},
            meta={"k": "least"},
            hoverinfo="skip",
        )
    if first is not None and first.measured:
        us = first.measured.median_us
        guess_text = f"the model's guess: {time_text(us)}"
        figure.add_scatter(
            x=[1, max(2, len(best))],
            y=[us] * 2,
            name=guess_text,
            mode="lines",
            line={"color": c["bad"], "width": 1.4, "dash": "dash"},
            customdata=[f"{guess_text}, measured: {first.tile}"] * 2,
            meta={"k": "guess"},
            hovertemplate="%{customdata}<extra></extra>",
        )
    how, order = "99 % interval", "trial (count, in the order tried)"
    if not rows.tried:
        how, order = "predicted", "tile (count, as the model ranks them)"
    times = [t.modelled_us for t in rows.trials]
    times += [
        us for t in rows.tried if t.measured for us in (t.measured.low_us, t.measured.high_us)
    ]
    figure.update_xaxes(title=order, rangemode="tozero")
    figure.update_yaxes(title=f"kernel alone (µs), {how}", **spread_axis(times))
    return styled(figure, theme, title, 460, showlegend=True)


def _modelled(figure: go.Figure, rows: SearchRows, c: Mapping[str, str]) -> None:
    """Add the predictions, and a ring around the tile on show."""
    figure.add_scatter(
        x=[n + 1 for n in range(len(rows.trials))],
        y=[t.modelled_us for t in rows.trials],
        name="predicted",
        mode="markers",
        marker={"symbol": "circle-open", "color": c["ink3"], "size": 7},
        customdata=[words(n, t) for n, t in enumerate(rows.trials)],
        meta=_meta(list(enumerate(rows.trials)), "predicted"),
        hovertemplate="%{customdata}<extra></extra>",
    )
    shown = [n for n, t in enumerate(rows.trials) if t.used]
    figure.add_scatter(
        x=[n + 1 for n in shown],
        y=[_us(rows, n) for n in shown],
        name="current",
        mode="markers",
        marker={"symbol": "circle-open", "color": c["accent"], "size": 15, "line_width": 2},
        customdata=[words(n, rows.trials[n]) for n in shown],
        meta={"k": [f"current trial:{n}" for n in shown]},
        hovertemplate="%{customdata}<extra></extra>",
    )


def _meta(trials: Sequence[tuple[int, TrialRow]], key: str) -> dict[str, Any]:
    """Return each trial's highlight keys, and the tile it selects if all trials select one."""
    keys = {"k": [f"{key} trial:{n}" for n, _ in trials]}
    if any(t.rank < 0 for _, t in trials):
        return keys
    return {**keys, "take": [{"rank": t.rank} for _, t in trials]}


def _us(rows: SearchRows, n: int) -> float:
    measured = rows.trials[n].measured
    return measured.median_us if measured else rows.trials[n].modelled_us


def _measured(figure: go.Figure, rows: SearchRows, by: str, c: Mapping[str, str]) -> None:
    """Add the trials of one search method."""
    mine = [(n, t, t.measured) for n, t in enumerate(rows.trials) if t.by == by and t.measured]
    if not mine:
        return
    figure.add_scatter(
        x=[n + 1 for n, _, _ in mine],
        y=[m.median_us for _, _, m in mine],
        name=f"measured, {NAMES[by]}",
        mode="markers",
        marker={"symbol": SYMBOLS[by], "color": c["ink2"], "size": 8},
        error_y=whiskers([m for _, _, m in mine], c["ink3"], thickness=1.2, width=2),
        customdata=[words(n, t) for n, t, _ in mine],
        meta=_meta([(n, t) for n, t, _ in mine], KEYS[by]),
        hovertemplate="%{customdata}<extra></extra>",
    )


def _draw(s: OnShow, op: str) -> Drawn:
    rolled_kernel = tiled_kernel(s, op)
    if rolled_kernel is None or not rolled_kernel.choices:
        return placeholder("Roller has tiled nothing.")
    tried = s.clocked(NAME, rolled_kernel.binding) if rolled_kernel.own else None
    rows = data(rolled_kernel, threads(s.now.compiled), tried or ())
    return rows, None, table(rows)


def _about(s: OnShow, op: str) -> str | None:
    rolled_kernel = tiled_kernel(s, op)
    return rolled_kernel.binding if rolled_kernel and rolled_kernel.own else None


def _tried(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    c = now.compiled
    kernel = next(b.kernel_call.kernel for b in c.program.kernel_calls if b.name == about)
    decision = c.program.decisions.tiling(about)
    assert decision is not None
    sizes = {**c.program.env.hints, **dict(now.sizes)}
    trials = search(kernel, decision, c.device, c.program.env, sizes, threads(c))
    for tried in trials:
        yield len(tried), FIRST + MORE, tried


def _search_result(trials: Any) -> str:
    best = min(trials, key=lambda t: t.measured.median_us)
    by = "the model's order" if best.by == MODEL else "the search"
    text = counted(len(trials), "tile")
    return f"{text} tried: the best took {time_text(best.measured.median_us)}, found by {by}"


PICTURE = Picture(
    name=NAME,
    title="Search",
    words="Tiles tried one after another: the best so far beside the model's guess.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
    chart=chart,
    clock=Clock("Search", _about, _tried, _search_result),
)
