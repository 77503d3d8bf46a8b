"""Launches of several threads side by side, each with a group of workers of its own."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Protocol

from explorer.allowance import cores
from explorer.errors import BadOption
from explorer.runtime.workers.workers import JOIN_SECONDS, Team


class Launcher(Protocol):
    """What a launch runs on: one team, or whichever of several is free."""

    def launch(self, block: int, units: int) -> None:
        """Run the launch block at an address; returns when all its units have ended."""


class Teams:
    """Teams that share the cores: together they have about as many workers at work as there are, so
    that none spins while another one wants its core. A launch that finds no core free queues.

    Who runs is read without a lock, for which an interrupt would have to be kept away: two launches
    that begin at the same moment may have a worker too many, or queue for one team.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most or cores()
        self._teams = [Team(self.most)]

    @property
    def teams(self) -> tuple[Team, ...]:
        """Those that were needed until now."""
        return tuple(self._teams)

    @property
    def workers(self) -> int:
        """How many threads serve, the callers aside."""
        return sum(t.workers for t in self._teams)

    @property
    def thread_ids(self) -> tuple[int, ...]:
        """The workers' ids as the operating system knows them."""
        return tuple(n for t in self._teams for n in t.thread_ids)

    @property
    def taken(self) -> int:
        """How often a worker has carried another one's unit."""
        return sum(t.taken for t in self._teams)

    def launch(self, block: int, units: int) -> None:
        """As `Team.launch`; it has the workers that no other launch has, at most one a unit."""
        if len(self._teams) == 1 and not self._teams[0].owner:  # as in most processes
            self._teams[0].launch(block, units)
        else:
            self._chosen().launch(block, units, self._free)

    def stop(self, seconds: float = JOIN_SECONDS) -> None:
        """End every worker, each within a time; a later launch starts fresh ones."""
        for team in self._teams:
            team.stop(seconds)

    def _free(self, asking: Team) -> int:
        """Cores that no other team's launch is on."""
        return self.most - sum(t.running for t in self._teams if t is not asking)

    def _chosen(self) -> Team:
        """The first team that is idle, where a core is; else one to wait for."""
        busy = [t for t in self._teams if t.owner]
        if not busy:
            return self._teams[0]
        me = threading.get_ident()
        if any(t.owner == me for t in busy):
            raise BadOption("a run began inside another one of this thread", try_="another thread")
        if sum(t.running for t in busy) >= self.most:
            return busy[threading.get_native_id() % len(busy)]
        for team in self._teams:
            if team not in busy:
                return team
        self._teams.append(Team(self.most))
        return self._teams[-1]


_teams: Teams | None = None
_making = threading.Lock()


def teams() -> Teams:
    """The teams of this process; after a fork, the child's own."""
    global _teams
    if _teams is None:
        with _making:
            if _teams is None:
                _teams = Teams()
    return _teams


def _forget_after_fork() -> None:
    global _teams, _making
    _teams, _making = None, threading.Lock()


@atexit.register
def _stop_at_exit() -> None:
    if _teams is not None:
        _teams.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
