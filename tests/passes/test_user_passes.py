"""Passes of the user's own: where they stand, that they are never out of date, and that a bad one
ends in one sentence and harms nothing.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Event, Thread

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.errors import BadOption, BadPass
from explorer.frontends.model import Model
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import apply
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.passes import registry
from explorer.passes.user_pass import UserPass
from explorer.process import sandbox
from tests.passes.test_pipeline import break_values
from tests.two_inputs import two_inputs

AFTER = "legalise to kernels"
FACTOR = 1.0


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("own") / "add.onnx"
    path.write_bytes(two_inputs().SerializeToString())
    return explorer.load(str(path))


def scaled(program: Program, factor: float) -> Program:
    """The last kernel gives so many times its value."""
    binding = program.main.body[-1]
    assert isinstance(binding.expr, KernelCall)
    kernel = binding.expr.kernel
    last = kernel.computes[-1]
    more = replace(last, expr=apply("mul", last.expr, factor))
    kernel = replace(kernel, computes=(*kernel.computes[:-1], more))
    body = (*program.main.body[:-1], replace(binding, expr=replace(binding.expr, kernel=kernel)))
    return program.with_body(body)


def by_factor(program: Program) -> Program:
    """Scale by a global, through a helper."""
    return scaled(program, factor_of())


def factor_of() -> float:
    return FACTOR


def doubled(program: Program) -> Program:
    """Scale by two."""
    return scaled(program, 2.0)


@dataclass(frozen=True)
class Scale:
    """Scale by an option."""

    factor: float = 2.0

    def __call__(self, program: Program) -> Program:
        return scaled(program, self.factor)


def answer(c: Compilation) -> np.ndarray:
    inputs = {"a": np.ones((2, 4), np.float32), "b": np.ones(3, np.float32)}
    return next(iter(c.run({n: inputs[n] for n in c.model.inputs}).values()))


def steps(c: Compilation) -> list[str]:
    return [s.name for s in c.snapshots]


def test_a_registered_pass_enters_every_pipeline_and_leaves_its_snapshot(model: Model) -> None:
    before = answer(explorer.compile(model))
    explorer.compiler_pass("scale", paper="none", after=AFTER)(Scale)
    c = explorer.compile(model)
    assert steps(c)[steps(c).index(AFTER) + 1] == "scale"
    found = c.snapshot("scale")
    assert found.own and found.stage is Stage.LEGALIZED and found.before != found.after
    np.testing.assert_allclose(answer(c), 2 * before)
    explorer.forget_pass("scale")
    assert "scale" not in steps(explorer.compile(model))


def test_options_take_passes_after_any_step_and_after_each_other(model: Model) -> None:
    def first(p: Program) -> Program:
        return replace(p)

    def second(p: Program) -> Program:
        return replace(p)

    options = Options(
        passes=(("clean up", first), ("tile (Roller)", Scale(3.0)), ("clean up", second))
    )
    with pytest.raises(BadPass, match="'Scale'"):  # tiled for another text: found out, not run
        explorer.compile(model, options=Options(passes=(("schedule (Rammer)", Scale(3.0)),)))
    names = steps(explorer.compile(model, options=options, until="ROLLED"))
    at = names.index("clean up")
    assert names[at + 1 : at + 3] == ["first", "second"]
    assert names[-2:] == ["tile (Roller)", "Scale"]


def test_a_class_of_passes_stands_for_its_defaults_and_one_twice_has_two_names(
    model: Model,
) -> None:
    options = Options(passes=((AFTER, Scale), ("clean up", Scale(4.0))))
    assert [(p.name, p.run) for _, p in own(options)] == [
        ("Scale", Scale()),
        ("Scale2", Scale(4.0)),
    ]
    assert answer(explorer.compile(model, options=options))[0, 0] == 8 * unscaled(model)


def own(options: Options) -> list[tuple[str, UserPass]]:
    return [(after, run) for after, run in options.passes if isinstance(run, UserPass)]


def unscaled(model: Model) -> float:
    return float(answer(explorer.compile(model, options=Options(registered=False)))[0, 0])


def test_a_pass_registered_again_takes_the_place_of_the_first(model: Model) -> None:
    one = unscaled(model)
    for factor in (2.0, 3.0, 2.0, 5.0):

        @explorer.compiler_pass("scale", after=AFTER)
        def scale(p: Program, by: float = factor) -> Program:
            return scaled(p, by)

        c = explorer.compile(model)
        assert answer(c)[0, 0] == factor * one
        assert steps(c).count("scale") == 1


def test_an_edited_global_of_a_pass_gives_no_stale_result(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = unscaled(model)
    explorer.compiler_pass("by factor", after=AFTER)(by_factor)
    for factor in (2.0, 7.0, 2.0):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", factor)
        assert answer(explorer.compile(model))[0, 0] == factor * one


def test_a_pass_that_has_not_changed_is_remembered(model: Model) -> None:
    explorer.compiler_pass("scale", after=AFTER)(Scale)
    assert explorer.compile(model).snapshots  # also where an earlier run kept the program
    c = explorer.compile(model)
    assert c.snapshot("scale").cached


def test_earlier_compilations_keep_the_passes_that_they_were_made_with(model: Model) -> None:
    explorer.compiler_pass("scale", after=AFTER)(Scale)
    c = explorer.compile(model)
    before = answer(c)

    @explorer.compiler_pass("scale", after=AFTER)
    def broken(p: Program) -> None:
        return None

    threads = explorer.compile(model, options=c.options), c.with_options(rammer=c.options.rammer)
    for again in threads:
        np.testing.assert_array_equal(answer(again), before)
    np.testing.assert_array_equal(answer(c), before)


# Bad passes


def no_program(p: Program) -> object:
    return None


def a_list(p: Program) -> object:
    return [p]


def raises(p: Program) -> Program:
    raise ZeroDivisionError("by nothing\n" + "x" * 5000)


def leaves(p: Program) -> Program:
    raise SystemExit(3)


def deep(p: Program) -> Program:
    return deep(p)


def drops_a_binding(p: Program) -> Program:
    return p.with_body(p.main.body[1:])


def loses_origin(p: Program) -> Program:
    return p.with_body(tuple(replace(b, origin=frozenset()) for b in without_origin(p)))


def without_origin(p: Program) -> Iterator[object]:
    for b in p.main.body:
        assert isinstance(b.expr, KernelCall)
        computes = tuple(replace(c, origin=frozenset()) for c in b.expr.kernel.computes)
        yield replace(b, expr=replace(b.expr, kernel=replace(b.expr.kernel, computes=computes)))


def renames_an_input(p: Program) -> Program:
    first, *rest = p.main.params
    return p.with_function(replace(p.main, params=(Var("z", first.type), *rest)))


def another_output(p: Program) -> Program:
    outputs = tuple(Var(v.name, Tensor((7,), "int64")) for v in p.main.outputs)
    return p.with_function(replace(p.main, outputs=outputs))


def no_output(p: Program) -> Program:
    return p.with_function(replace(p.main, outputs=(), output_names=()))


def binds_words(p: Program) -> Program:
    return p.with_body((*p.main.body[:-1], replace(p.main.body[-1], expr="add")))  # type: ignore[arg-type]


def a_body_that_is_a_list(p: Program) -> Program:
    return p.with_body(list(p.main.body))  # type: ignore[arg-type]


def another_stage(p: Program) -> Program:
    return replace(p, stage=Stage.PLANNED)


def no_symbols(p: Program) -> Program:
    return replace(p, env=ShapeEnv())


def invents_sources(p: Program) -> Program:
    return replace(p, sources=())


def writes_into_the_constants(p: Program) -> Program:
    p.constants["w"] = np.ones(3)  # type: ignore[index]
    return p


def no_kernel(p: Program) -> Program:
    last = p.main.body[-1]
    assert isinstance(last.expr, KernelCall)
    return p.with_body((*p.main.body[:-1], replace(last, expr=replace(last.expr, kernel=None))))  # type: ignore[arg-type]


def no_functions(p: Program) -> Program:
    return replace(p, functions=None)  # type: ignore[arg-type]


class Odd(dict):  # type: ignore[type-arg]
    def values(self) -> object:  # type: ignore[override]
        raise LookupError("odd")


def a_name_that_is_none(p: Program) -> Program:
    return replace(p, constants=Odd())


BAD: tuple[tuple[Callable[[Program], object], str], ...] = (
    (no_program, "returned None, not a Program"),
    (a_list, "returned a list, not a Program"),
    (raises, "failed: ZeroDivisionError: by nothing xxx"),
    (leaves, "failed: SystemExit: 3"),
    (deep, "failed: RecursionError"),
    (drops_a_binding, "is not well formed"),
    (loses_origin, "comes from no source operator"),
    (renames_an_input, "changed the inputs from"),
    (another_output, "changed the outputs from"),
    (no_output, "changed the outputs from"),
    (binds_words, "binds a str"),
    (a_body_that_is_a_list, "returned a list where the body of 'main'"),
    (another_stage, "returned a program at stage PLANNED memory, not LEGALIZED"),
    (no_symbols, "changed the bounds of the symbol 'batch'"),
    (invents_sources, "changed the list of source operators"),
    (writes_into_the_constants, "failed: TypeError"),
    (no_kernel, "is not well formed"),
    (no_functions, "returned None where functions are a tuple of Function"),
    (a_name_that_is_none, "returned an unusable program: "),
)


@pytest.mark.few(6)
@pytest.mark.parametrize(("bad", "words"), BAD, ids=[b.__name__ for b, _ in BAD])
def test_a_bad_pass_ends_in_one_sentence_and_harms_nothing(
    model: Model, bad: Callable[[Program], object], words: str
) -> None:
    before = explorer.compile(model)
    good = answer(before)
    known = dict(registry._passes)
    with pytest.raises(BadPass) as refused:
        explorer.compile(model, options=Options(passes=((AFTER, bad),)))
    sentence = refused.value.sentence
    assert sentence.startswith(f"the pass {bad.__name__!r} ") and words in sentence
    assert "\n" not in sentence and len(sentence) < 1000
    assert refused.value.where == bad.__name__
    assert registry._passes == known
    np.testing.assert_array_equal(answer(before), good)
    again = explorer.compile(model)
    assert all(s.cached for s in again.snapshots)
    np.testing.assert_array_equal(answer(again), good)


def test_what_a_bad_pass_raised_is_chained(model: Model) -> None:
    with pytest.raises(BadPass) as refused:
        explorer.compile(model, options=Options(passes=((AFTER, raises),)))
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


def test_a_step_that_cannot_go_on_names_the_pass_that_changed_the_program(model: Model) -> None:
    def odd_groups(p: Program) -> Program:
        graph = replace(p.decisions.tile_graph, groups=(1, 2))  # type: ignore[type-var,arg-type]
        return replace(p, decisions=replace(p.decisions, tile_graph=graph))

    with pytest.raises(BadPass, match="cannot run on the result of the pass 'odd_groups'"):
        explorer.compile(model, options=Options(passes=(("fuse (Welder)", odd_groups),)))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("after", "decisions", "words"),
    [
        ("fuse (Welder)", {"tile_graph": 3}, "returned an int as tile_graph"),
        ("fuse (Welder)", {"tasks": "all"}, "returned a str as tasks"),
        (
            "tile (Roller)",
            {"tilings": (1, 2)},
            "returned an int where tilings are a tuple of TilingDecision",
        ),
        (
            "tile (Roller)",
            {"tilings": None},
            "returned None where tilings are a tuple of TilingDecision",
        ),
        ("schedule (Rammer)", {"rammer": None}, "returned None as decisions of rammer"),
        ("plan memory", {"memory": {}}, "returned a dict as decisions of memory"),
    ],
)
def test_decisions_of_other_types_are_refused(
    model: Model, after: str, decisions: dict[str, object], words: str
) -> None:
    def decides(p: Program) -> Program:
        return replace(p, decisions=replace(p.decisions, **decisions))  # type: ignore[arg-type]

    with pytest.raises(BadPass, match=f"the pass 'decides' {words}"):
        explorer.compile(model, options=Options(passes=((after, decides),)))


def tiled(change: Callable[[Tiling], object]) -> Callable[[Program], Program]:
    def tile(p: Program) -> Program:
        body = []
        for b in p.main.body:
            if isinstance(b.expr, KernelCall):
                assert isinstance(b.expr.tiling, Tiling)
                b = replace(b, expr=replace(b.expr, tiling=change(b.expr.tiling)))
            body.append(b)
        return p.with_body(tuple(body))

    return tile


BAD_TILES: dict[str, Callable[[Tiling], object]] = {
    "none": lambda t: None,
    "a word": lambda t: "tile",
    "of no size": lambda t: replace(t, tile=(("i", 0),)),
    "of a negative size": lambda t: replace(t, tile=(("i", -3),)),
    "of a tebibyte": lambda t: replace(t, tile=(("i", 10**12),)),
    "along no axis": lambda t: replace(t, tile=(("zz", 4),)),
    "of a thousand rows": lambda t: replace(t, micro=replace(t.micro, rows=1000)),
    "of no rows": lambda t: replace(t, micro=replace(t.micro, rows=0)),
    "of odd vectors": lambda t: replace(t, micro=replace(t.micro, lanes=7)),
    "packed by words": lambda t: replace(t, pack="x"),  # type: ignore[arg-type]
}


@pytest.mark.few(4)
@pytest.mark.parametrize("change", BAD_TILES.values(), ids=BAD_TILES)
def test_tiles_that_cannot_be_are_refused(model: Model, change: Callable[[Tiling], object]) -> None:
    with pytest.raises(
        BadPass, match=r"the pass 'tile' returned a program that cannot be compiled: "
    ):
        explorer.compile(model, options=Options(passes=(("tile (Roller)", tiled(change)),)))


def test_tiles_that_can_be_are_taken(model: Model) -> None:
    one = explorer.compile(model)
    other = Options(passes=(("tile (Roller)", tiled(lambda t: replace(t, tile=(("i", 1),)))),))
    found = explorer.compile(model, options=other)
    assert [k.tiling.tile for k in found.kernels] == [(("i", 1),)]
    np.testing.assert_array_equal(answer(found), answer(one))


@pytest.mark.parametrize(
    ("passes", "sentence"),
    [
        ("fuse (Welder)", "pairs of a step's name and a pass"),
        ((doubled,), "pairs of a step's name and a pass"),
        (((AFTER, 3),), "cannot be called with a program"),
        (((AFTER, lambda: None),), "cannot be called with a program"),
        ((("legalize to kernels", doubled),), "did you mean 'legalise to kernels'"),
        (
            (("generate code", doubled),),
            "makes machine code of the last program: no pass follows it",
        ),
        (
            ((AFTER, UserPass("tile (Roller)", doubled)),),
            "a step of the pipeline is named 'tile \\(Roller\\)'",
        ),
    ],
)
def test_passes_that_cannot_stand_anywhere_are_refused(
    model: Model, passes: object, sentence: str
) -> None:
    with pytest.raises(BadOption, match=sentence):
        explorer.compile(model, options=Options(passes=passes), until="ROLLED")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a.b", "a=b", " a", "a\x1b[31m", "x" * 81, doubled, None])
def test_a_pass_without_a_fit_name_is_not_registered(name: object) -> None:
    known = dict(registry._passes)
    with pytest.raises(BadOption, match="a pass needs a name"):
        explorer.compiler_pass(name, after=AFTER)(doubled)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="cannot be called with a program"):
        explorer.compiler_pass("five", after=AFTER)(5)  # type: ignore[type-var]
    assert registry._passes == known


def test_check_blames_the_pass_that_broke_the_values_and_no_step_after_it(model: Model) -> None:
    options = Options(passes=((AFTER, break_values),))
    c = explorer.compile(model, options=options, until="ROLLED", check=True)
    wrong = [s.name for s in c.snapshots if isinstance(s.checked, str)]
    assert wrong == ["break_values"]


# Endless ones


def test_an_endless_pass_is_interrupted_and_leaves_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CAN_FORK", False)  # it runs in this process at once
    begun = Event()

    def endless(p: Program) -> Program:
        begun.set()
        while True:
            pass

    def interrupt() -> None:
        begun.wait()
        _thread.interrupt_main()

    before = explorer.compile(model)
    assert before.snapshots  # runs the passes also where an earlier run kept the program
    thread = Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        explorer.compile(model, options=Options(passes=((AFTER, endless),)))
    thread.join()
    again = explorer.compile(model)
    assert all(s.cached for s in again.snapshots)
    np.testing.assert_array_equal(answer(again), answer(before))
