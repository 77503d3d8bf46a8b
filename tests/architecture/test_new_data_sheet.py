"""A machine is added as one file of `explorer/devices/datasheets/`, or anywhere and named by its
path.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import explorer
import explorer.np as enp
from explorer.devices import catalogue
from tests.architecture.conftest import Shell
from tests.architecture.house import drawn
from widgets.session.session import Session

SHEET = Path(__file__).parents[1] / "plugin" / "acme.toml"
SKIP = "tests/data/tiny_skip.onnx"


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The folder of data sheets with one more."""
    folder = tmp_path / "datasheets"
    shutil.copytree(str(catalogue.SHEETS), folder)
    shutil.copy(SHEET, folder)
    monkeypatch.setattr(catalogue, "SHEETS", folder)
    forget()
    yield
    forget()


def forget() -> None:
    """What was read of the folder."""
    catalogue.device_names.cache_clear()
    catalogue._shipped.cache_clear()


@explorer.trace
def model(x: explorer.tensor("float32", 64, 96), w: explorer.tensor("float32", 96, 128)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(x @ w)


def test_it_is_a_target() -> None:
    assert "acme" in explorer.device_names()
    c = explorer.compile(model, target="acme")
    assert c.device.name == "acme" and c.device.units == 4
    assert all(c.program.decisions.tiling(b.name) for b in c.program.kernel_calls)


@pytest.mark.parametrize("name", ["roller", "waves", "roofline", "staircase", "welder", "curve"])
def test_every_picture_of_tiles_offers_it(name: str) -> None:
    session = Session(explorer.compile(model))
    assert "acme" in session.answer("picture", {"room": name, "op": -1})["controls"]["devices"]
    assert "acme" in drawn(session, name, device="acme")


def test_the_shell_lists_it_and_takes_it(shell: Shell) -> None:
    assert "acme" in shell("devices")
    assert shell("explain", SKIP, "--stage", "roller", "--target", "acme")
    assert "acme" in shell("ram", SKIP, "--target", "acme")
