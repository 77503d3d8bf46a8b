import itertools
import re
from pathlib import Path

import pytest

from tests.widgets.colour import contrast, distance
from widgets.draw import theme
from widgets.page import front_end

GROUNDS = ("pane", "app", "tint", "soft", "add", "del")
FAMILIES = [theme.family_token(f) for f in theme.FAMILIES]
# The smallest distance of two families that EXPLORER.md promises.
APART = {
    "light": {"normal": 23.8, "protan": 18.9, "deutan": 17.8, "tritan": 18.2},
    "dark": {"normal": 18.5, "protan": 16.1, "deutan": 15.9, "tritan": 16.2},
}
FROM_ACCENT = {"light": 31, "dark": 28}


@pytest.mark.parametrize("scheme", theme.SCHEMES)
@pytest.mark.parametrize("ink", ["ink", "ink2", "ink3", "accent", "ok", "bad", "k", "st", "fn"])
def test_every_ink_is_readable_on_every_ground(scheme: str, ink: str) -> None:
    tokens = theme.SCHEMES[scheme]
    for ground in GROUNDS:
        assert contrast(tokens[ink], tokens[ground]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("scheme", theme.SCHEMES)
def test_edges_of_boxes_are_seen(scheme: str) -> None:
    tokens = theme.SCHEMES[scheme]
    assert contrast(tokens["edge"], tokens["pane"]) >= 2.95


@pytest.mark.parametrize("scheme", theme.SCHEMES)
@pytest.mark.parametrize("sight", ["normal", "protan", "deutan", "tritan"])
def test_no_two_families_look_alike(scheme: str, sight: str) -> None:
    tokens = theme.SCHEMES[scheme]
    pairs = itertools.combinations(FAMILIES, 2)
    nearest = min(distance(tokens[a], tokens[b], sight) for a, b in pairs)
    assert nearest >= APART[scheme][sight] - 0.1


@pytest.mark.parametrize("scheme", theme.SCHEMES)
def test_the_accent_is_no_family(scheme: str) -> None:
    tokens = theme.SCHEMES[scheme]
    assert min(distance(tokens["accent"], tokens[f]) for f in FAMILIES) >= FROM_ACCENT[scheme]


def test_both_schemes_have_the_same_tokens() -> None:
    assert theme.LIGHT.keys() == theme.DARK.keys()


def test_no_other_file_picks_a_colour() -> None:
    folder = Path(theme.__file__).parent.parent
    for path in (*folder.rglob("*.py"), *folder.glob("canvas/*")):
        if path.name != "theme.py" and path.suffix in (".py", ".js", ".css"):
            found = re.findall(r"#[0-9a-fA-F]{6}\b|\brgba?\(|\bhsl\(", path.read_text("utf-8"))
            assert not found, (path.name, found)


def test_every_colour_that_is_named_exists() -> None:
    folder = Path(theme.__file__).parent.parent
    known = theme.LIGHT.keys() | theme.FONTS.keys()
    for path in (*folder.rglob("*.py"), *folder.glob("canvas/*")):
        for token in re.findall(r"var\(--([\w-]+)\)", path.read_text("utf-8")):
            assert token in known, (path.name, token)


def test_a_drawing_that_stands_alone_has_no_variables() -> None:
    assert "var(--" not in theme.resolve_variables(theme.pattern_defs(), "dark")


def test_the_front_end_is_one_module_without_imports() -> None:
    script = front_end.script()
    assert not re.search(r"^\s*import\b", script, re.MULTILINE)
    assert script.count("export default") == 1


def test_charts_on_either_ground_are_read_on_both() -> None:
    """Lines and large text: 3 to 1 on the paper of JupyterLab, light and dark."""
    for name in ("ink", "ink2", "ink3", "accent", "bad", "f-conv", "f-matmul"):
        for ground in ("#ffffff", "#111111"):
            assert contrast(theme.EITHER[name], ground) >= 3, (name, ground)
