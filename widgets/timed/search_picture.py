"""Words of a search over tiles, and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, time_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting, threads
from widgets.model.on_show import OnShow
from widgets.model.picture import Clock, Drawn, Picture, placeholder
from widgets.roller.view import TILES, tiled_kernel
from widgets.timed.measured_text import COLUMNS, cells, measured_text
from widgets.timed.search import FIRST, MODEL, MORE, SEARCH, SearchRows, TrialRow, data, search

NAME = "search"


def caption(rows: SearchRows) -> str:
    """Return the number of trials, and how far the model's guess is from the best."""
    on = f"{rows.kernel} on {rows.device}"
    first, best = rows.first, rows.best
    if first is None or best is None or not first.measured or not best.measured:
        text = f"{on}: {count_text(len(rows.trials), 'tile')} predicted"
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
        f"{on}, {count_text(rows.threads, 'thread')}: {count_text(len(rows.tried), 'tile')} timed "
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
                f", is the best of {count_text(len(rows.tried), 'tile')}.",
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
        share = Mark(f"{evolved} of {count_text(len(rows.tried), 'tile')}", "evolved")
        sentences.append((share, f" came from an evolutionary search; all took {spent}."))
    return tuple(sentences)


def _ranked(rows: SearchRows) -> tuple[Sentence, ...]:
    """Return the model's ranking of tiles that are not timed."""
    if not rows.trials:
        return ()
    tiles = Mark(count_text(len(rows.trials), "tile"), "predicted")
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
    text = count_text(len(trials), "tile")
    return f"{text} tried: the best took {time_text(best.measured.median_us)}, found by {by}"


PICTURE = Picture(
    name=NAME,
    title="Search",
    words="Tiles tried one after another: the best so far beside the model's guess.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
    clock=Clock("Search", _about, _tried, _search_result),
)
