"""`ironworks devices` shows what the model's constants were fitted to, errors included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.cli.arguments import parse_flags
from explorer.cli.commands import devices
from explorer.devices.costs import Costs, Fit
from explorer.errors import BadOption
from explorer.measure.turns import Disturbance
from explorer.views.answer import Answer, to_json_types
from tests.measure.test_this_cpu import SMALL

FITS = (Fit("contraction m=64", 2.0, 2.2, 0.01), Fit("nothing", 0.0, 0.0))
FITTED = replace(
    SMALL,
    costs=Costs(pack=0.75, stores=(("L1", 0.9),), together=(("DRAM", 11.0),), fits=FITS),
    sources=(*SMALL.sources, ("costs", "fitted")),
)


def shown(monkeypatch: pytest.MonkeyPatch, *words: str, in_line: float = 0.0) -> Answer:
    bore = Disturbance(0.0, True, 0, in_line)
    monkeypatch.setattr(devices, "measured_undisturbed", lambda: (FITTED, bore))
    monkeypatch.setattr(devices, "this_cpu", lambda: FITTED)
    parser = devices.Parser("devices", "")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--measure", action="store_true")
    return devices.answer(parse_flags(parser, words))


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
    fields = to_json_types(shown(monkeypatch, "this-cpu").data)
    assert isinstance(fields, dict)
    costs = fields["costs"]
    assert costs["pack"] == 0.75
    assert costs["fits"][0]["probe"] == "contraction m=64"


def test_a_measurement_that_others_disturbed_is_shown_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet, busy = shown(monkeypatch, "--measure"), shown(monkeypatch, "--measure", in_line=0.4)
    assert quiet.yes and "not kept" not in quiet.text
    assert not busy.yes and "not kept" in busy.text and "40%" in busy.text
    assert [dict(x.data)["kept"] for x in (quiet, busy)] == [True, False]  # type: ignore[call-overload]


def test_only_this_machine_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadOption, match="v100 is a data sheet"):
        shown(monkeypatch, "v100", "--measure")
