"""A target of another distribution is one class of forty lines: it compiles, prints, prices, and is
drawn, and nothing of the library changes.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.devices import target
from explorer.errors import BadOption, NoSuchDevice
from explorer.ir.stage import Stage
from explorer.passes.fingerprint import device_key
from explorer.roller import Price
from explorer.roller.transform import LegalTiles
from tests.architecture.conftest import Shell
from tests.architecture.house import drawn
from widgets.session.session import Session

PLUGIN = Path(__file__).parents[1] / "plugin"
MODEL = "zoo:tiny_skip"


@pytest.fixture
def dsp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setattr(target, "_registered", target._registered.copy())
    import ironworks_dsp

    yield ironworks_dsp.DEVICE
    del sys.modules["ironworks_dsp"]


def test_it_is_forty_lines() -> None:
    assert len((PLUGIN / "ironworks_dsp.py").read_text().splitlines()) <= 40


def test_a_program_is_compiled_to_a_plan_and_printed(dsp: Any) -> None:
    c = explorer.compile("zoo:tiny_bert", dsp)
    assert c.stage is Stage.PLANNED and c.memory().planned_bytes > 0
    assert not LegalTiles(dsp)(c.program)
    assert c.planned_wall().units == dsp.units
    assert [k.name for k in c.blocks] == [b.name for b in c.program.kernel_calls]
    for kernel in c.blocks:
        assert kernel.source.startswith("void ") and not kernel.refused
        assert str(kernel).startswith(f"{kernel.name} on acme-dsp: ")


def test_it_prices_kernels_by_its_own_rule(dsp: Any) -> None:
    import ironworks_dsp

    from explorer.targets.cpu import TARGET

    binding = explorer.compile("zoo:tiny_bert", dsp, until="rolled").program.kernel_calls[0]
    kernel, env = binding.kernel_call.kernel, explorer.load("zoo:tiny_bert").program.env
    own, core = Price(dsp)(kernel, env), TARGET.price_us(kernel, dsp, env, 10)
    assert own == core + ironworks_dsp.MESSAGE_US


def test_it_cannot_be_run_and_says_so(dsp: Any) -> None:
    c = explorer.compile("zoo:tiny_bert", dsp)
    with pytest.raises(BadOption, match="acme-dsp is a data sheet, not this machine"):
        c.time(c.random_inputs())


def test_it_is_drawn_and_told(dsp: Any, shell: Shell) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", dsp))
    assert "8 cores" in drawn(session, "rammer")
    for picture in ("roller", "staircase", "roofline", "tile_program", "memory", "policies"):
        assert "SM" not in drawn(session, picture), picture
    source = session.answer("kernel", {"call": 0, "language": "numba"})
    assert "void " in str(source)


def test_a_sheet_of_a_target_that_is_not_here_is_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    sheet = (PLUGIN / "dsp.toml").read_text().replace('target = "dsp"', 'target = "nowhere"')
    path = tmp_path / "nowhere.toml"
    path.write_text(sheet.replace('name = "acme-dsp"', 'name = "acme-nowhere"'))
    with pytest.raises(NoSuchDevice, match="the target 'nowhere', and there is none of that name"):
        explorer.compile("zoo:tiny_bert", str(path))
    path.write_text(sheet.replace('"nowhere"', '"no where"'))
    with pytest.raises(explorer.errors.BadSheet, match="target is a short word"):
        explorer.compile("zoo:tiny_bert", str(path))


def test_values_are_those_of_the_program(dsp: Any) -> None:
    c = explorer.compile("zoo:tiny_bert", dsp, check=True)  # every step is validated
    assert all(np.isfinite(s.seconds) for s in c.steps)


def test_a_changed_target_is_asked_again(dsp: Any) -> None:
    """What is cached was decided by the code that a target had then."""
    import ironworks_dsp

    class Dear(ironworks_dsp.Dsp):
        asked = 0

        def price_us(self, kernel: Any, device: Any, env: Any, top_k: int) -> float:
            Dear.asked += 1
            return 1.0 + super().price_us(kernel, device, env, top_k)

    explorer.compile("zoo:tiny_skip", dsp)
    target.register("dsp", Dear())
    explorer.compile("zoo:tiny_skip", dsp)
    assert Dear.asked > 0


def test_a_target_of_another_version_is_asked_again(
    dsp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of an installed package is known by its version."""
    before = device_key(dsp)
    about = tmp_path / "acme-1.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert device_key(dsp) != before


def test_changed_rules_of_tiles_are_asked_again(dsp: Any) -> None:
    import ironworks_dsp

    class Ruled(ironworks_dsp.Dsp):
        asked = 0

        def tile_rules(self, device: Any, expression: Any, streamed: bool) -> Any:
            Ruled.asked += 1
            return super().tile_rules(device, expression, not streamed)

    explorer.compile("zoo:tiny_skip", dsp)
    target.register("dsp", Ruled())
    explorer.compile("zoo:tiny_skip", dsp)
    assert Ruled.asked > 0


def test_a_class_in_place_of_a_target_is_refused() -> None:
    from explorer.targets.cpu import Cores

    with pytest.raises(BadOption, match="is an ABCMeta, not a Target"):
        target.register("dsp", Cores)  # type: ignore[arg-type]


def test_a_target_that_fails_to_print_is_named_with_the_kernel(dsp: Any) -> None:
    import ironworks_dsp

    class Broken(ironworks_dsp.Dsp):
        def print(self, *args: Any) -> str:
            raise ZeroDivisionError("in the middle")

    target.register("dsp", Broken())
    kernel = explorer.compile("zoo:tiny_skip", dsp).blocks[0]
    said = "the target Broken failed in print of the kernel 'sum': ZeroDivisionError: in the middle"
    assert kernel.source == "" and said in kernel.refused


def test_thread_blocks_are_printed_by_ones_own_target(dsp: Any, tmp_path: Path) -> None:
    from explorer.targets.cuda import ThreadBlocks

    class Tiles(ThreadBlocks):
        def print(self, kernel: Any, tiling: Any, env: Any, sizes: Any, device: Any) -> str:
            program = self.steps(kernel, tiling, env, sizes, device)[-1][1]
            return f"kernel {kernel.name}: {len(program.body)}"

    target.register("tiles", Tiles())
    path = tmp_path / "tiles.toml"
    path.write_text('name = "acme-tiles"\ntitle = "Tiles"\nlike = "v100"\ntarget = "tiles"\n')
    c = explorer.compile("zoo:tiny_skip", path)
    assert c.blocks and all(k.source.startswith("kernel ") or k.refused for k in c.blocks)
