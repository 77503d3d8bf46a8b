"""The same pictures over real compilations: what is shown agrees with what the compiler says."""

import json
from collections import Counter
from pathlib import Path

import pytest

import explorer
from explorer.compiler.operators import Operator
from explorer.ir.calls import KernelCall
from explorer.transforms.winograd import Options as Convolutions
from widgets.page.report import document
from widgets.rooms import gallery
from widgets.rooms.inspection import data
from widgets.session.session import Session

DATA = Path(__file__).parents[1] / "data"
MODELS = ("tiny_bert", "tiny_resnet18", "tiny_while")


@pytest.fixture(scope="module", params=MODELS)
def session(request: pytest.FixtureRequest) -> Session:
    found = Session(explorer.compile(DATA / f"{request.param}.onnx"))
    found.run_once()
    return found


def loops(session: Session) -> bool:
    return any(c.family == "control flow" for c in session.house.calls)


@pytest.mark.few(1)
def test_every_room_is_drawn_for_every_operator(session: Session) -> None:
    for room in (p.name for p in gallery.PICTURES):
        for operator in ("", *(o.name for o in session.house.operators[:5])):
            figure, table = gallery.picture(room, session, operator)
            assert figure.text("light") and table.rows


def test_the_bricks_of_a_call_are_its_tasks_each_once(session: Session) -> None:
    wall = session.walls.planned
    assert wall is not None
    facts = session.now.compiled.task_facts(dict(session.now.sizes))  # of the tilings that run
    tasks = {path.rpartition("/")[2]: fact.tasks for path, fact in facts.items()}
    seen: Counter[tuple[str, int]] = Counter()
    for i in range(len(wall.unit)):
        name = wall.calls[wall.call[i]].name
        seen.update((name, task) for task in range(wall.first[i], wall.last[i] + 1))
    assert set(seen.values()) == {1}
    for name, count in Counter(name for name, _ in seen).items():
        assert count == tasks[name]


def test_no_two_bricks_of_a_unit_overlap_and_shares_add_up(session: Session) -> None:
    for wall in (session.walls.planned, session.walls.measured):
        assert wall is not None
        for unit in range(wall.units):
            mine = wall.unit == unit
            assert (wall.start[mine][1:] >= wall.end[mine][:-1] - 0.01).all()
        assert sum(wall.shares().values()) == pytest.approx(1, abs=0.01)


def test_every_kernel_lights_lines_for_each_of_its_operators(session: Session) -> None:
    names = {o.name for o in session.house.operators}
    for position, call in enumerate(session.house.calls):
        if call.name not in {k.name for k in session.now.compiled.kernels}:
            continue
        answer = session.answer("kernel", {"call": position, "language": "numba"})
        assert len(answer["ops"]) == len(answer["lines"])
        lit = {op for ops in answer["ops"] for op in ops}
        binding = next(
            b for b in session.now.compiled.program.kernel_calls if b.var.name == call.name
        )
        assert isinstance(binding.expr, KernelCall)
        origins = binding.expr.kernel.origin & names
        assert lit == set(session.house.positions(sorted(origins)))


def test_every_operator_is_in_the_graph_or_says_why_not(session: Session) -> None:
    shown = {op for n in session.house.graph("operators").nodes for op in n.ops}
    folded = {op for n in session.house.graph("kernels").nodes for op in n.ops}

    def computed(o: Operator) -> bool:
        return bool(o.calls)

    for operator in session.house.operators:
        assert computed(operator) == (operator.name in folded)
        assert computed(operator) == (operator.name in shown)
        assert computed(operator) or operator.dropped


@pytest.mark.exhaustive
def test_no_message_is_larger_than_a_megabyte(session: Session) -> None:
    content = document(session, code=False)
    for part, value in {**content["parts"], **content["answers"]}.items():
        assert len(json.dumps(value)) < 1 << 20, part


def test_threads_and_policy_compile_nothing(session: Session) -> None:
    with explorer.counters.delta() as did:
        for name in ("threads", "policy"):
            knob = next(k for k in session.knobs() if k.name == name)
            session.turn(name, (knob.now + 1) % len(knob.values))
            session.undo()
    assert did.counts.kernel_compiles == 0


@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_tile_that_is_not_the_fastest_says_what_decided(target: str) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", target, until="planned"))
    slower = 0
    for op in range(len(session.house.operators)):
        tile = session.answer("operator", {"op": op})["tile"]
        legal = [c for c in tile["candidates"] if not c["refused"]]
        if not legal:
            continue
        chosen = [c["us"] for c in legal if c["on"]]
        others = [c["us"] for c in legal if not c["on"]]
        assert [c["on"] for c in legal] == sorted((c["on"] for c in legal), reverse=True)
        assert others == sorted(others)
        behind = min([*chosen, *others]) < chosen[0]
        assert (" longer than the fastest" in tile["sentence"]) == behind
        slower += behind
    assert slower or target == "cpu"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("algorithm", "said"),
    [("f2", "done by F(2x2, 3x3), "), ("direct", ""), ("auto", "The convolution is done ")],
)
def test_the_inspector_says_how_a_convolution_is_done(algorithm: str, said: str) -> None:
    options = explorer.Options(convolution=Convolutions(algorithm))
    session = Session(explorer.compile("zoo:small_resnext29", options=options))
    name = "/stages.0.1/groups/conv/Conv"
    (operator,) = (o for o in session.house.operators if o.name == name)
    text = data(session, operator.name)["tile"]
    assert said in text["sentence"] and "inf" not in text["sentence"]
    assert text["sentence"].startswith("The convolution" if said else "Roller took")
