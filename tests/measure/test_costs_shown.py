"""`ironworks devices` shows what the model's constants were fitted to, errors included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.cli import devices
from explorer.cli.answer import Answer, plain
from explorer.cli.arguments import parsed
from explorer.devices.costs import Costs, Fit
from tests.measure.test_this_cpu import SMALL

FITS = (Fit("contraction m=64", 2.0, 2.2, 0.01), Fit("nothing", 0.0, 0.0))
FITTED = replace(
    SMALL,
    costs=Costs(pack=0.75, stores=(("L1", 0.9),), together=(("DRAM", 11.0),), fits=FITS),
    sources=(*SMALL.sources, ("costs", "fitted")),
)


def shown(monkeypatch: pytest.MonkeyPatch, *words: str) -> Answer:
    monkeypatch.setattr(devices, "measure", lambda: FITTED)
    monkeypatch.setattr(devices, "remember", lambda device: None)
    monkeypatch.setattr(devices, "this_cpu", lambda: FITTED)
    parser = devices.Parser("devices", "")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--measure", action="store_true")
    return devices.answer(parsed(parser, words))


@pytest.mark.parametrize("words", [("--measure",), ("this-cpu",)])
def test_every_probe_is_shown_with_its_error(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(monkeypatch, *words).text
    line = next(x for x in text.splitlines() if "contraction m=64" in x)
    assert line.split() == ["contraction", "m=64", "2.000", "2.200", "+10.0%", "1.0%"]
    assert "0.75" in next(x for x in text.splitlines() if x.split()[:1] == ["pack"])
    assert "11" in next(x for x in text.splitlines() if x.split()[:1] == ["DRAM"])


def test_the_fit_is_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = plain(shown(monkeypatch, "this-cpu").data)
    assert isinstance(fields, dict)
    costs = fields["costs"]
    assert costs["pack"] == 0.75
    assert costs["fits"][0]["probe"] == "contraction m=64"
