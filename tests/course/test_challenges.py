"""An entry of a challenge is a file: whoever has it finds its score and its answers again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer import course
from explorer.course import challenge
from explorer.course.__main__ import main
from explorer.errors import BadOption
from explorer.rammer import Facts, Placement
from explorer.rammer.manual_moves import Move, PolicyWithMoves

NAME = "nerf"


@pytest.fixture(scope="module")
def default() -> Any:
    return course.begin(NAME)


def entry(default: Any, folder: Path) -> Path:
    """One with a policy that ships, a move by hand and another fusion."""
    operator = default.program.kernel_calls[0].name
    moves = (Move(operator, 0, 1, unit=1),)
    c = default.with_options(
        welder=replace(default.options.welder, policy="two_step"),
        rammer=replace(default.options.rammer, policy=PolicyWithMoves("wavefront", moves)),
    )
    path = folder / "entry.json"
    found = course.submit(NAME, c, path)
    assert not found.refused and found.score_us == pytest.approx(c.planned_wall().total_us)
    return path


def test_an_entry_is_verified_from_its_file_alone(default: Any, tmp_path: Path) -> None:
    path = entry(default, tmp_path)
    told = json.loads(path.read_text())
    assert set(told["options"]) == {"welder", "rammer"}
    found = course.verify(path, seconds=0.05)
    assert found.challenge == NAME and not found.refused
    assert found.score_us == pytest.approx(told["score_us"])
    assert found.default_us == pytest.approx(default.planned_wall().total_us)
    assert "×" in found.verdict


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"score_us": 0.5}, "the file claims 0.5 us, and its choices take"),
        ({"score_us": None}, "the file claims None us"),
        ({"digest": "0"}, "is of another model than zoo:small_nerf"),
        ({"challenge": "nothing"}, "there is no challenge 'nothing'"),
        ({"ironworks_challenge": 2}, "no entry of version 1"),
        ({"options": {"passes": {}}}, "the file's options are not of"),
        ({"options": {"welder": {"policy": "mine"}}}, "welder.policy is a function or one of"),
        ({"options": {"welder": {"nothing": 1}}}, "welder.nothing cannot be handed in"),
        ({"options": {"welder": 3}}, "the file's options are invalid"),
        (
            {"options": {"hardware": {"changed": [["clock_ghz", 6.0]]}}},
            "hardware.changed cannot be handed in: it is no choice of the challenge 'nerf'",
        ),
        ({"options": {"steps": {"off": ["tile (Roller)"]}}}, "steps.off cannot be handed in"),
        ({"options": {"rammer": {"threads": 4096}}}, "rammer.threads cannot be handed in"),
        ({"options": {"rammer": {"profile": None}}}, "rammer.profile cannot be handed in"),
        ({"options": {"rammer": {"policy": {"is": "system"}}}}, "the file's options are invalid"),
        ({"options": []}, "the file's options are not of"),
    ],
    ids=range(15),
)
def test_a_file_that_does_not_hold_is_refused_with_its_reason(
    default: Any, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    told = {
        "ironworks_challenge": 1,
        "challenge": NAME,
        "digest": default.model.digest,
        "options": {},
        "score_us": default.planned_wall().total_us,
    }
    path = tmp_path / "entry.json"
    path.write_text(json.dumps(told | change))
    found = course.verify(path, seconds=0)
    assert why in found.refused and found.score_us == 0


def test_what_is_no_file_of_an_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "entry.json"
    for text, why in (("{", "is no JSON"), ("[" * 5000, "is no JSON"), ("3", "is no entry")):
        path.write_text(text)
        assert why in course.verify(path).refused
    path.write_text(" " * (1 << 17))
    assert "larger than 64 KiB" in course.verify(path).refused
    assert "No such file" in course.verify(tmp_path / "none").refused


def test_code_cannot_be_handed_in_and_another_model_is_none(default: Any, tmp_path: Path) -> None:
    def mine(facts: Facts) -> Placement:
        raise NotImplementedError

    own = default.with_options(rammer=replace(default.options.rammer, policy=mine))
    with pytest.raises(BadOption, match=r"rammer\.policy cannot be handed in"):
        course.submit(NAME, own, tmp_path / "a.json")
    fewer = default.with_options(rammer=replace(default.options.rammer, threads=2))
    with pytest.raises(BadOption, match=r"rammer\.threads cannot be handed in"):
        course.submit(NAME, fewer, tmp_path / "a.json")
    other = explorer.compile("tests/data/tiny_skip.onnx", target="v100")
    with pytest.raises(BadOption, match="the challenge 'nerf' is zoo:small_nerf on v100"):
        course.submit(NAME, other, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


def test_the_command_ranks_entries_and_says_which_are_refused(
    default: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, broken = entry(default, tmp_path), tmp_path / "broken.json"
    broken.write_text("{")
    assert main(["challenges"]) == 0
    assert all(name in capsys.readouterr().out for name in (NAME,))
    assert main(["verify", str(path), "--seconds", "0"]) == 0
    assert main(["verify", str(broken), str(path), "--seconds", "0"]) == 1
    first, last = capsys.readouterr().out.splitlines()[-2:]
    assert "us predicted" in first and "refused: " in last


def test_every_challenge_can_be_begun() -> None:
    for name in challenge.CHALLENGES:
        assert course.begin(name).planned_wall().total_us > 0
