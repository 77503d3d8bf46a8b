"""This machine is measured while nobody uses it, and what others disturbed is not kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.devices.model import Device
from explorer.measure import in_background
from explorer.measure.turns import Disturbance
from tests.measure.test_this_cpu import SMALL


class Machine:
    """A machine whose load follows a list, and whose measurements are disturbed as told."""

    def __init__(self, loads: list[float], in_line: list[float]) -> None:
        self.loads, self.in_line = iter(loads), iter(in_line)
        self.kept: list[Device] = []
        self.measured = 0

    def measure(self) -> Device:
        self.measured += 1
        return replace(SMALL, clock_ghz=float(self.measured))

    def begin(self) -> None:
        pass

    def end(self) -> Disturbance:
        return Disturbance(0.0, True, 0, next(self.in_line))

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(in_background, "measure", self.measure)
        monkeypatch.setattr(in_background, "remember", self.kept.append)
        monkeypatch.setattr(in_background, "remembered", lambda: (self.kept or [None])[0])
        monkeypatch.setattr(in_background, "Watch", lambda: self)


def test_it_waits_until_the_machine_is_idle_and_keeps_what_nothing_disturbed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine([1.5, 0.9, 0.1, 0.2, 0.1], [0.3, 0.0])
    machine.put_in_place(monkeypatch)
    assert in_background.when_idle(lambda: next(machine.loads), lambda _: None)
    assert machine.measured == 2 and [d.clock_ghz for d in machine.kept] == [2.0]


def test_a_machine_that_is_never_idle_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([], [])
    machine.put_in_place(monkeypatch)
    assert not in_background.when_idle(lambda: 3.0, lambda _: None, looks=5)
    assert machine.measured == 0


def test_nothing_is_measured_where_somebody_else_did(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([0.0], [0.0])
    machine.kept.append(SMALL)
    machine.put_in_place(monkeypatch)
    assert in_background.when_idle(lambda: 0.0, lambda _: None)
    assert machine.measured == 0


def test_it_ends_with_whoever_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([0.0], [0.0])
    machine.put_in_place(monkeypatch)
    parents = iter((100, 1))
    monkeypatch.setattr(in_background.os, "getppid", lambda: next(parents))
    assert not in_background.when_idle(lambda: 0.0, lambda _: None)
    assert machine.measured == 0
