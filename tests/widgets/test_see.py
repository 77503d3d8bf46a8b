"""What a picture is to see: sentences of its own, else the clauses of its caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import explorer
from explorer.errors import BadOption
from explorer.measure.compare import Comparison, Measurement
from explorer.roller.construct.shrink import Waves
from explorer.tuning.sensitivity import Cost, LeftOut, Varied
from widgets.draw.plots import for_page
from widgets.draw.table import Mark, Sentence, caption_sentences, see_part, sentence_text
from widgets.rammer import errors_picture
from widgets.rammer.errors_picture import ErrorRow, ErrorRows
from widgets.roller import roofline, scale_out
from widgets.roller.roofline import Roof, RooflinePoint, RooflineRows
from widgets.roller.scale_out import WaveRows
from widgets.rooms import gallery
from widgets.session.session import Session
from widgets.timed import ablation, hardware, kernel_table, search, sizes
from widgets.timed import ablation as left_out_chart
from widgets.timed import hardware as hardware_chart
from widgets.timed.ablation import AblationRows
from widgets.timed.hardware import VariedRows
from widgets.timed.kernel_table import Floor, KernelRow, KernelRows
from widgets.timed.search import MODEL, SEARCH, SearchRows, TrialRow
from widgets.timed.sizes import TASKS, Break, PlannedSize, Shape, SizeRows
from widgets.training import memory_front
from widgets.training.memory_front import FrontPoint


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile("zoo:tiny_bert", until="planned"))


def test_clauses_of_a_caption_are_three_sentences_at_most() -> None:
    found = caption_sentences("packed 256 KiB, no sharing 705 KiB; two; three; four")
    assert [sentence_text(s) for s in found] == [
        "Packed 256 KiB, no sharing 705 KiB.",
        "Two.",
        "Three.",
    ]
    assert caption_sentences("") == ()


def test_a_mark_keeps_what_it_lights() -> None:
    assert see_part([(Mark("8 cores", "core"), " are busy.")]) == [
        [["8 cores", "core"], [" are busy.", ""]]
    ]


def drawn_marks(svg: str, figure: Any = None) -> Iterator[frozenset[str]]:
    """The words of each mark of a drawing, and of a chart as its page draws it."""
    yield from (frozenset(part.split('"')[0].split()) for part in svg.split('data-k="')[1:])
    for trace in figure["data"] if figure else ():
        k = (trace.get("meta") or {}).get("k", "")
        yield from (frozenset(words.split()) for words in ([k] if isinstance(k, str) else k))
    for annotation in figure["layout"].get("annotations", ()) if figure else ():
        yield frozenset(annotation.get("name", "").split())


def unlit(lights: Sequence[str], marks: Sequence[frozenset[str]]) -> list[str]:
    """What of `lights` no mark has all words of."""
    ways = {words: [set(way.split()) for way in words.split("|")] for words in lights}
    return [w for w in lights if not any(way <= mark for way in ways[w] for mark in marks)]


@pytest.mark.parametrize("name", [p.name for p in gallery.PICTURES])
def test_every_picture_has_sentences_and_what_they_light_is_drawn(
    name: str, session: Session
) -> None:
    picture = gallery.find_picture(name)
    try:
        drawn = picture.draw(session, "")
    except BadOption:
        return  # it says why itself
    found = gallery.for_page(picture, drawn)
    assert len(found["see"]) <= 3 and (found["see"] or not drawn[2].caption)
    lights = [lit for sentence in found["see"] for _, lit in sentence if lit]
    assert unlit(lights, list(drawn_marks(found["svg"], found.get("figure")))) == []
    assert lights or name not in gallery.CHARTS or drawn[0] == ()


@pytest.fixture(scope="module")
def v100() -> Session:
    return Session(explorer.compile("zoo:tiny_bert", "v100", until="planned"))


@pytest.mark.parametrize("name", ["roofline", "waves", "search", "rtasks"])
def test_a_data_sheet_s_charts_are_lit(name: str, v100: Session) -> None:
    picture = gallery.find_picture(name)
    found = gallery.for_page(picture, picture.draw(v100, ""))
    lights = [lit for sentence in found["see"] for _, lit in sentence if lit]
    assert lights and unlit(lights, list(drawn_marks(found["svg"], found["figure"]))) == []


def clock(us: float) -> Measurement:
    return Measurement(us, 0.9 * us, 1.1 * us, 60)


def planned_size(size: int, us: float) -> PlannedSize:
    return PlannedSize(size, us, Shape({}, 1, {}))


SIZES = SizeRows(
    "seq", (), "this-cpu", True, 8,
    (planned_size(1, 10.0), planned_size(8, 20.0), planned_size(9, 30.0)),
    (Break(9, 30.0, TASKS, "2 tasks, 1 before"),), 0,
    ((1, clock(11.0)), (9, clock(90.0))),
)  # fmt: skip
TRIALS = tuple(
    TrialRow(f"i={n}", by, 10.0 + n, clock(us), 0.5, -1, False)
    for n, (by, us) in enumerate(((MODEL, 40.0), (MODEL, 50.0), (SEARCH, 20.0)))
)
SEARCHED = SearchRows("matmul", "this-cpu", True, 2, TRIALS, ())
KERNELS = KernelRows(
    "this-cpu", "", 2, True,
    tuple(
        KernelRow(f"k{n}", f"matmul_{n}", "matmul", (), floor, 50.0 - n, clock(40.0 - n))
        for n, floor in enumerate((Floor(50.0, "compute", 9, 9), Floor(10.0, "L2", 9, 9), None))
    ),
)  # fmt: skip
WITHOUT = AblationRows(
    Cost(100.0, 64, 3),
    (
        LeftOut("fold copies", Cost(90.0, 64, 3)),
        LeftOut(
            "fuse (Welder)",
            Cost(150.0, 64, 9),
            measured=Comparison(0.5, 0.4, 0.6, 60, "slower", clock(20.0), clock(10.0)),
        ),
        LeftOut("tile", refused="schedules need tiles"),
    ),
)
VARIED = VariedRows(
    "this-cpu",
    100.0,
    (
        Varied("units", 0.5, 1.0, 190.0, 180.0),
        Varied("units", 2.0, 4.0, 80.0, 60.0),
        Varied("L1 ways", 0.5, 4.0, 100.0, None),
    ),
)
CALLS = ErrorRows(
    "this-cpu",
    "measured",
    tuple(
        ErrorRow(f"c{n}", f"matmul_{n}", "matmul", (), bricks, 1.0, us)
        for n, (bricks, us) in enumerate(((100, 2.0), (1, 9.0), (2, 1.0)))
    ),
    -0.03,
)
FRONT = (
    FrontPoint("as it is", 4096, 10.0, 0, True),
    FrontPoint("1 again", 2048, 11.0, 1, False),
    FrontPoint("2 again", 1024, 15.0, 2, False),
)
SEEN: dict[str, tuple[Any, Any, list[str]]] = {  # by name: module with `see`, rows, sentences
    "sizes": (sizes, SIZES, [
        "A run of seq = 8 is predicted to take 20.0 µs.",
        "The plan changes at 1 size, first at 9.",
        "Measured at 2 sizes, farthest off at 9: 3.00 times the prediction.",
    ]),
    "search": (search, SEARCHED, [
        "The best tile takes 20.0 µs, trial 3.",
        "The model's guess takes 40.0 µs, 2.00 times as long.",
        "1 of 3 tiles came from an evolutionary search; all took 1.5 s.",
    ]),
    "kernels": (kernel_table, KERNELS, [
        "matmul_0 takes longest: 50.0 µs predicted, 40.0 µs measured, 34% of all kernels.",
        "matmul_1 is farthest above its floor, the least possible time: 3.9×.",
        "1 kernel ran below the floor: the device is faster than its figures.",
    ]),
    "left_out": (ablation, WITHOUT, [
        "fuse (Welder) is worth most: without it a run takes 150 µs, "
        "with all steps 100 µs, predicted.",
        "The clock says 2.00 times as long without it (1.67 to 2.50).",
        "Without fold copies it would be faster: 90.0 µs, predicted.",
    ]),
    "hardware": (hardware, VARIED, [
        "units matters most: a run takes 100 µs, half of it 190 µs, twice of it 80.0 µs.",
        "Compiled anew for twice of it, a run takes 60.0 µs.",
        "1 of 2 figures change the predicted time.",
    ]),
    "errors": (errors_picture, CALLS, [
        "The run was predicted 3% too short; half of the 3 calls are off by 2.00× or less.",
        "matmul_0 weighs most: it took 100 µs more than predicted.",
        "Farthest off is matmul_1: a task takes 9 times its prediction.",
    ]),
    "memory_time": (memory_front, FRONT, [
        "The plan here holds 4 KiB at once and takes 10.0 µs, predicted.",
        "With 2 values computed again it would hold 1 KiB at the price of 50.0% more time.",
        "3 plans lie between memory and time.",
    ]),
}  # fmt: skip
DRAWN: dict[str, Any] = {
    "sizes": sizes, "search": search, "kernels": kernel_table, "left_out": left_out_chart,
    "hardware": hardware_chart, "errors": errors_picture, "memory_time": memory_front,
}  # fmt: skip


def lit_in_chart(name: str, rows: Any) -> tuple[Sentence, ...]:
    """The sentences of rows; each mark in them lights something of their chart."""
    found: tuple[Sentence, ...] = SEEN[name][0].see(rows)
    lights = [part.lights for s in found for part in s if isinstance(part, Mark)]
    figure = for_page(DRAWN[name].chart(rows, "", "page"))
    assert lights and unlit(lights, list(drawn_marks("", figure))) == []
    return found


@pytest.mark.parametrize("name", SEEN)
def test_a_chart_s_sentences_are_its_rows(name: str) -> None:
    _, rows, said = SEEN[name]
    assert list(map(sentence_text, lit_in_chart(name, rows))) == said


@pytest.mark.parametrize(
    ("name", "rows", "first"),
    [
        ("sizes", replace(SIZES, planned=SIZES.planned[:1], breaks=(), measured=(), now=5),
         "A run of seq = 1 is predicted to take 10.0 µs."),
        ("sizes", replace(SIZES, breaks=(), measured=()),
         "A run of seq = 8 is predicted to take 20.0 µs."),
        ("search", replace(SEARCHED, trials=tuple(replace(t, measured=None) for t in TRIALS)),
         "The model predicts 10.0 µs to 12.0 µs for 3 tiles."),
        ("search", replace(SEARCHED, trials=TRIALS[:1]),
         "The model's guess, 40.0 µs, is the best of 1 tile."),
        ("kernels", replace(KERNELS, kernels=tuple(
            replace(k, measured=None, floor=None) for k in KERNELS.kernels)),
         "matmul_0 takes longest: 50.0 µs predicted, 34% of all kernels."),
        ("left_out", replace(WITHOUT, rows=WITHOUT.rows[:1]),
         "1 step left out alone: a run takes no longer, predicted."),
        ("hardware", replace(VARIED, rows=(Varied("units", 0.5, 1.0, None, 180.0),)),
         "units matters most: a run takes 100 µs, half of it 180 µs."),
        ("errors", replace(CALLS, calls=CALLS.calls[1:2], error=0.0),
         "The run was predicted to the percent; its 1 call is off by 9.00× or less."),
        ("memory_time", FRONT[:1],
         "The plan here holds 4 KiB at once and takes 10.0 µs, predicted."),
    ],
)  # fmt: skip
def test_few_rows_have_sentences_as_well(name: str, rows: Any, first: str) -> None:
    assert sentence_text(lit_in_chart(name, rows)[0]) == first


def test_the_current_tile_is_held_against_the_others() -> None:
    rows = WaveRows(
        "matmul", "v100", ("a", "b"), (Waves(80, 80), Waves(20, 80)), ("", ""), 0, ()
    )  # fmt: skip
    assert [sentence_text(s) for s in scale_out.see(rows)] == [
        "The current tile makes 80 copies on 80 SMs: 1 wave, the last fills 80 of 80 places.",
        "It leaves nothing idle, tile 2 75.0% of the time.",
    ]
    assert [sentence_text(s) for s in scale_out.see(replace(rows, rank=1))] == [
        "The current tile makes 20 copies on 80 SMs: 1 wave, the last fills 20 of 80 places.",
        "75.0% of the time of 80 SMs is idle.",
        "Least idle is tile 1: 0.0%.",
    ]


def test_a_tile_that_is_faster_than_its_roof_is_told_so() -> None:
    point = RooflinePoint("j=4", "L2", 0.25, 750.0, 900.0, 0.0, 2.0, 0.0, 0)
    rows = RooflineRows(
        "matmul", "v100", False, (Roof("L2", 80, 3000.0),), ((80, 12000.0),), (point,), 0, ()
    )  # fmt: skip
    assert [sentence_text(s) for s in roofline.see(rows)] == [
        "matmul is bound by L2: 0.25 operations a byte, ridge at 4.",
        "Predicted: 900 GFLOP/s, above the 750 GFLOP/s of L2: "
        "nearer memory serves what is read again.",
    ]
    fast = replace(rows, points=(replace(point, intensity=8.0, bound=12000.0),))
    assert sentence_text(roofline.see(fast)[0]) == (
        "matmul is bound by compute: 8 operations a byte from L2, ridge at 4."
    )


@pytest.mark.parametrize(
    ("module", "rows"),
    [
        (sizes, replace(SIZES, planned=(), breaks=(), measured=())),
        (search, replace(SEARCHED, trials=())),
        (kernel_table, replace(KERNELS, kernels=())),
        (ablation, replace(WITHOUT, rows=WITHOUT.rows[2:])),
        (hardware, replace(VARIED, rows=())),
        (roofline, RooflineRows("matmul", "v100", False, (), (), (), 0, ())),
        (scale_out, WaveRows("matmul", "v100", (), (), (), 0, ())),
    ],
)
def test_rows_without_a_number_have_no_sentences(module: Any, rows: Any) -> None:
    assert module.see(rows) == ()
