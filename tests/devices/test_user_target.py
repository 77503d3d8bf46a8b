"""Answers of a user's target: what it raises or returns wrongly is named with method and line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import explorer
import widgets
from explorer.compiler.compilation import Compilation
from explorer.devices import target
from explorer.devices.listing import Listing, Listings
from explorer.devices.target import Target, register
from explorer.devices.user_target import FLAGS, QUESTIONS
from explorer.errors import BadOption, BadTarget
from explorer.ir.text.tile_printer import print_tile_program
from explorer.process.user_code import Registry
from explorer.roller.policy import candidates
from explorer.roller.transform import LegalTiles, Price
from explorer.targets.cpu import Cores
from explorer.targets.cuda import ThreadBlocks
from explorer.welder.tiles.plan import plan_group

MODEL = "zoo:tiny_skip"
SHEET = (Path(__file__).parents[1] / "plugin" / "dsp.toml").read_text()
SHEET = SHEET.replace('"L1"', '"scratchpad"').replace('"L2"', '"buffer"')


class Weft(Cores):
    """Cores that print C."""

    def print(self, kernel: Any, tiling: Any, env: Any, sizes: Any, device: Any) -> str:
        program = self.steps(kernel, tiling, env, sizes, device)[-1][1]
        return "\n".join(("weft", *print_tile_program(program)))


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(target, "_registered", Registry())
    yield


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "weft.toml"
    path.write_text(SHEET.replace('"dsp"', '"weft"').replace("acme-dsp", "weft-6"))
    return path


def extended(base: type[Target], name: str, answer: Callable[..., Any]) -> Target:
    made: Target = type("Bad", (base,), {name: answer})()
    return made


def kernel_call(c: Compilation) -> Any:
    return next(b for b in c.program.kernel_calls if b.kernel_call.tiling is not None)


def asked_everything(sheet: Path) -> None:
    """Compile, and ask every question that a target is asked."""
    c = explorer.compile(MODEL, sheet)
    binding = kernel_call(c)
    call, env, device = binding.kernel_call, c.program.env, c.device
    Price(device)(call.kernel, env)
    c.planned_wall()
    for kernel in c.blocks:
        if kernel.refused:
            raise BadTarget(kernel.refused)
        kernel.listings  # noqa: B018
    c.explain(binding.name, tile=dict(call.tiling.tile))
    assert not LegalTiles(device)(c.program)
    assert list(candidates(call.kernel, device, env, c.hint, 5))
    widgets.data(c, "tile_program")
    plan_group(call.kernel, device, env)


def test_a_target_that_answers_well_is_asked_everything(sheet: Path) -> None:
    register("weft", Weft())
    asked_everything(sheet)


WRONG: dict[str, tuple[Any, ...]] = {
    "memories": (None, (), ("L1", "L2")),
    "tile_levels": (None, (1, 2), range(0), range(2), range(1, 9)),
    "tile_memory": (None, "L2"),
    "most_elements": (0, "many", True),
    "resident": (None, 0, -1, 0.5, True),
    "tile_rules": (None, "rules"),
    "candidates": (None, ["tiling"]),
    "weigh": (None, 1.0),
    "call_tiler": (None, lambda call, name: call),
    "broken_rule": (None, True),
    "price_us": (None, "cheap", math.nan, -1.0, True),
    "steps": (None, (), ("lower",)),
    "print": (None, math.nan, -1, "", " \n"),
    "listings": (
        None,
        "code",
        Listings(Listing("a\nb", (1,)), Listing(""), ""),
        Listings(Listing(""), Listing("a", (10_000,)), ""),
    ),
    "printed": (None, ("kernel",)),
    "grid_times": (1.5, "times"),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_question_that_raises_is_named_with_its_line(name: str, sheet: Path) -> None:
    def bad(self: Any, *asked: Any, **named: Any) -> Any:
        raise ZeroDivisionError("my bug")

    register("weft", extended(Weft, name, bad))
    said = rf"the target Bad failed in {name}.*: ZeroDivisionError: my bug, at line \d+ of"
    with pytest.raises(BadTarget, match=rf"{said} test_user_target.py \(`raise Zero"):
        asked_everything(sheet)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values])
def test_a_wrong_answer_is_named_with_what_it_must_be(name: str, value: Any, sheet: Path) -> None:
    def bad(self: Any, *asked: Any, **named: Any) -> Any:
        return value

    register("weft", extended(Weft, name, bad))
    with pytest.raises(BadTarget) as refused:
        asked_everything(sheet)
    if "come from line" in refused.value.sentence:  # that of a listing, compared with the source
        assert name == "listings" and "10000" in refused.value.sentence
        return
    assert f"{name} of the target Bad returned" in refused.value.sentence
    expected = "a Candidate of a Tiling" if value == ["tiling"] else QUESTIONS[name].expected
    assert expected in refused.value.sentence
    assert "test_user_target.py (`def bad" in refused.value.sentence


def test_numbers_of_numpy_are_numbers(sheet: Path) -> None:
    import numpy as np

    class Priced(Weft):
        def price_us(self, *asked: Any) -> Any:
            return np.float32(2.0)

        def resident(self, *asked: Any) -> Any:
            return np.int64(1)

    register("weft", Priced())
    asked_everything(sheet)


def test_a_tiler_of_ones_own_is_guarded(sheet: Path) -> None:
    class Tiler:
        decisions = ()

        def __call__(self, call: Any, name: str) -> Any:
            raise KeyError(name)

    class Tiled(Weft):
        def call_tiler(self, *asked: Any) -> Any:
            return Tiler()

    register("weft", Tiled())
    with pytest.raises(BadTarget, match=r"Tiled failed in call_tiler: KeyError: .*raise KeyError"):
        explorer.compile(MODEL, sheet)


def test_an_inherited_answer_that_asks_a_wrong_one_names_the_wrong_one(sheet: Path) -> None:
    class Memories(Weft):
        def memories(self, device: Any) -> Any:
            return ("L1",)

    register("weft", Memories())
    with pytest.raises(BadTarget, match="memories of the target Memories returned a tuple"):
        Memories().tile_memory(explorer.device(str(sheet)))


def test_what_included_code_refuses_stays_as_it_is(sheet: Path) -> None:
    class Refusing(Weft):
        def print(self, *asked: Any) -> str:
            raise BadOption("no code for this kernel", where="k")

    register("weft", Refusing())
    c = explorer.compile(MODEL, sheet)
    assert {k.refused for k in c.blocks} == {"no code for this kernel"}


def test_a_made_up_device_is_shown_no_code_of_this_machine(sheet: Path) -> None:
    register("weft", Weft())
    c = explorer.compile(MODEL, sheet)
    assert not c.kernels and len(c.blocks) == len(c.program.kernel_calls)
    for kernel in c.blocks:
        assert kernel.listings.llvm.text == kernel.listings.assembly.text == ""
    with pytest.raises(TypeError, match=r"abstract method '?print"):
        Cores()  # type: ignore[abstract]


@pytest.mark.parametrize("picture", ["flow", "lines", "codegen", "kernels", "tile_program"])
def test_pictures_of_code_are_drawn_without_assembly(picture: str, sheet: Path) -> None:
    register("weft", Weft())
    assert str(widgets.show(explorer.compile(MODEL, sheet), picture))


def test_a_device_like_a_gpu_with_a_target_of_its_own_has_no_cuda(tmp_path: Path) -> None:
    class Blocks(ThreadBlocks):
        def print(self, *asked: Any) -> str:
            return "block"

    path = tmp_path / "tiles.toml"
    path.write_text('name = "acme-tiles"\ntitle = "Tiles"\nlike = "v100"\ntarget = "tiles"\n')
    register("tiles", Blocks())
    c = explorer.compile(MODEL, path)
    assert not c.takes_cuda and explorer.compile(MODEL, "v100").takes_cuda
    with pytest.raises(BadOption):
        c.device_program()


def test_tile_programs_lie_in_the_levels_of_the_device(sheet: Path) -> None:
    register("weft", Weft())
    c = explorer.compile("zoo:tiny_bert", sheet)
    names = {level.name for level in c.device.levels}
    levels = set()
    for b in c.program.kernel_calls:
        steps = c.target.steps(
            b.kernel_call.kernel, b.kernel_call.tiling, c.program.env, {}, c.device
        )
        levels |= {buffer.level for _, p in steps for buffer in p.buffers}
    assert levels <= {*names, "register"} and "scratchpad" in levels


# Registration


@pytest.mark.parametrize("name", [7, None, "", "no where", "Weft", "x" * 40])
def test_a_name_that_no_sheet_can_state_is_refused(name: Any) -> None:
    with pytest.raises(BadOption, match="the name of a target is a short word"):
        register(name, Weft())


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_an_included_target_is_not_replaced(name: str) -> None:
    with pytest.raises(BadOption, match=f"the target '{name}' comes with Ironworks"):
        register(name, Weft())


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_is_no_truth_value_is_refused(flag: str) -> None:
    with pytest.raises(BadTarget, match=f"{flag} of the target Odd is a str 'no'"):
        register("weft", type("Odd", (Weft,), {flag: "no"})())


@pytest.mark.parametrize("align", [0, 48, "64", True])
def test_an_alignment_is_a_power_of_two(align: Any) -> None:
    with pytest.raises(BadTarget, match="align_bytes of the target Odd"):
        register("weft", type("Odd", (Weft,), {"align_bytes": align})())


def test_two_modules_do_not_share_a_name_unless_one_extends_the_other() -> None:
    register("weft", Weft())
    unrelated = type("Other", (Cores,), {"print": Weft.print, "__module__": "another_module"})()
    with pytest.raises(BadOption, match="has registered a target 'weft' already"):
        register("weft", unrelated)
    register("weft", type("Extended", (Weft,), {"__module__": "another_module"})())
    register("weft", type("Sibling", (Weft,), {"__module__": "a_third_module"})())
    target.forget("weft")
    register("weft", unrelated)
    with pytest.raises(BadOption, match="no target of your own is named 'cpu'"):
        target.forget("cpu")


def test_an_earlier_compilation_keeps_its_target(sheet: Path) -> None:
    class One(Weft):
        def print(self, *asked: Any) -> str:
            return "ONE"

    class Two(Weft):
        def print(self, *asked: Any) -> str:
            return "TWO"

    register("weft", One())
    first = explorer.compile(MODEL, sheet)
    register("weft", Two())
    second = explorer.compile(MODEL, sheet)
    assert (first.blocks[0].source, second.blocks[0].source) == ("ONE", "TWO")


def test_a_class_that_type_makes_is_asked_again_when_it_changes(sheet: Path) -> None:
    """`type` with the metaclass of targets states the module `abc`, which is not where it is."""
    asked: list[float] = []

    def of(extra: float) -> Target:
        def price_us(self: Any, *given: Any) -> float:
            asked.append(extra)
            return extra + Weft.price_us(self, *given)

        return extended(Weft, "price_us", price_us)

    for extra in (3.0, 3000.0):
        register("weft", of(extra))
        explorer.compile(MODEL, sheet)
        assert asked and asked[-1] == extra
