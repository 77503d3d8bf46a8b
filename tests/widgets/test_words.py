"""One word for one thing: the words of the field, in all that a reader sees."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import explorer
from tests.widgets import made_by_hand as hand
from widgets.draw.table import cell_text
from widgets.model.glossary import words
from widgets.model.picture import Picture
from widgets.rooms import gallery
from widgets.session.session import Session

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
OLD = {  # what is written in its place
    r"(?i)\bhouses?\b": "explorer",
    r"(?i)\brooms?\b": "view, or capacity",
    r"(?i)\bbricks?\b(?! walls?)": "task, or chunk of tasks",
    r"\bworkers?\b(?!-src)|(?<!<)\b[wu]\d+(?!\w)|\b\d+ units?\b": "core of a CPU, SM of a GPU",
    r"(?i)\bmodelled\b|\bsimulated\b|\bplanned (?=\d|µs|start|$)|\d\D{0,4} planned\b": "predicted",
    r"\b[Pp]in(s|ned)?\b(?!,)|\bthan A\b|\bof A\b|\bA's\b": "set baseline; than the baseline",
    r"^ a run\b|[µmn]s a run\b|\ba run, (planned|measured)|\btime of a run\b": "per run",
    r"(?i)\barenas?\b|\bunshared\b|\bstorages\b|\bbounded(?! (to|from))": "packed, reuse by size",
    r"\bLeft out\b|\bTwo layers\b|\bFlow of code\b|\bLines to code\b": "the new titles",
    r"^it says\b|\bargument says\b": "parameter, argument, result",
    r"\bbreaks? found\b|\bnot halved\b": "plan changes at … sizes; search not finished",
    r"(?i)\btrips?\b(?! counts?\b)|\bturns? of \d": "iteration, unrolled by",
    r"(?i)\blooks? at a scalar\b": "scalar readback",
    r"(?<!wave )\btail\b|(?<!load )(?<!g-)\bimbalance\b": "wave tail, load imbalance",
    r"\bwaiting for a result\b|\bprogram cut\b": "dependency stall, launch overhead",
    r"\bon show\b|\blit in\b": "current, selected",
    r"\bhanded over\b|\bstored anyway\b": "stays in registers; must be stored",
    r"\bnothing again\b|\bagainst time\b": "nothing recomputed",
}
CODE = ("options", "cache", "codegen", "lines", "tile_program")  # names of options, or sources
EXEMPT = (  # workers of a sweep are processes of a cluster; code is no text
    "explorer/tuning/sweep", "explorer/cli/commands/sweep.py",
    "explorer/codegen/cuda/persistent.py", "explorer/codegen/wgsl/", "explorer/portable/c_",
    "widgets/page/front_end.py", "widgets/draw/svg.py", "widgets/page/serving.py",
    "widgets/live/scripts.py",
)  # fmt: skip
NOT_WORDS = re.compile(r"[\w./:|-]*")  # a name in code or in a link, not a phrase


def old_words(text: str) -> list[str]:
    """The words of a text that have better ones, each with those."""
    text = re.sub(r"\b[a-z]+\.[a-z_]+\b|[a-z]+-room\b", "", text)  # names of options
    found = ((pattern, re.search(pattern, text)) for pattern in OLD)
    return [f"{match[0]!r} in {text[:80]!r}: {OLD[p]}" for p, match in found if match]


def seen(session: Session, picture: Picture) -> Iterator[str]:
    """All texts of a picture: its title, its sentence, drawing, table, caption and controls."""
    yield from (picture.title, picture.words)
    if picture.name in CODE:
        return
    _, figure, table = picture.draw(session, "")
    if figure is not None:
        yield figure.title
        yield from re.findall(r">([^<>]+)<", figure.text("light"))
    yield from (table.caption, *map(str, table.columns))
    yield from (cell_text(cell) for row in table.rows for cell in row)
    see = gallery.for_page(picture, picture.draw(session, "")).get("see")
    yield from (text for text in _texts(see) if not re.fullmatch(r"[a-z]+:\S*", text))  # keys
    if picture.family is not None:
        told = picture.family.controls(session, picture.name)
        yield from _texts([told.get("note"), *(each[1] for each in told.get("more", ()))])


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            yield from (text for each in value.values() for text in _texts(each))
        case Sequence():
            yield from (text for each in value for text in _texts(each))


@pytest.fixture(scope="module")
def sessions() -> tuple[Session, ...]:
    by_hand = Session(hand.HandMade())  # type: ignore[arg-type]
    by_hand.run_once()
    loop = Session(explorer.compile(DATA / "tiny_while.onnx"))
    loop.run_once()
    sheet = Session(explorer.compile(DATA / "tiny_lstm.onnx", target="v100"))
    return by_hand, loop, sheet


@pytest.mark.parametrize("picture", gallery.PICTURES, ids=[p.name for p in gallery.PICTURES])
def test_a_picture_has_no_old_words_and_no_control_characters(
    sessions: tuple[Session, ...], picture: Picture
) -> None:
    texts = {text for session in sessions for text in seen(session, picture)}
    assert not [found for text in texts for found in old_words(text)]
    assert not [text for text in texts if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)]


def test_a_page_s_parts_have_no_old_words(sessions: tuple[Session, ...]) -> None:
    for session in sessions:
        parts = session.parts()
        shown = [parts["bar"], parts["verdict"], parts["history"]]
        shown += [[k["label"], k["hint"], k["labels"]] for k in parts["knobs"]]
        assert not [found for text in _texts(shown) for found in old_words(text)]


def test_the_glossary_has_no_old_words() -> None:
    texts = [text for word in words() for text in (word.name, word.means)]
    assert not [found for text in texts for found in old_words(text)]


def _phrases(path: Path) -> Iterator[str]:
    """The literals of a file that are phrases, but for docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = list(ast.walk(tree))
    loose = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    for n in nodes:
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in loose:
            text = re.sub(r"<[^>]*>|\{[^}]*\}", " ", n.value)
            if not NOT_WORDS.fullmatch(text.strip()):
                yield text


@pytest.mark.parametrize("folder", ["widgets", "explorer"])
def test_no_text_of_the_code_has_old_words(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {old}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(EXEMPT)
        for text in _phrases(path)
        for old in old_words(text)
    ]
    assert not found, "\n".join(found)
