"""Concurrent launches of several threads, each with a group of workers of its own."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Protocol

from explorer.allowance import cores
from explorer.errors import BadOption
from explorer.runtime.workers.workers import JOIN_SECONDS, Team


class Launcher(Protocol):
    """The executor of a launch: one team, or a free one of several."""

    def launch(self, block: int, units: int) -> None:
        """Run the launch block at an address; return when all its units have ended."""


class Teams:
    """Teams that share the cores.

    Together they have about as many active workers as there are cores, so that none spins while
    another one wants its core. A launch that finds no core free queues.

    The owner of a team is read without a lock, which interrupts would make unsafe. Two launches
    that begin at the same moment may have a worker too many, or queue for one team.
    """

    def __init__(self, most: int = 0) -> None:
        """Create one team; `most` is the number of cores, 0: all allowed ones."""
        self.most = most or cores()
        self._teams = [Team(self.most)]

    @property
    def teams(self) -> tuple[Team, ...]:
        """The teams created so far."""
        return tuple(self._teams)

    @property
    def workers(self) -> int:
        """The number of worker threads, without the callers."""
        return sum(t.workers for t in self._teams)

    @property
    def thread_ids(self) -> tuple[int, ...]:
        """The workers' ids in the operating system."""
        return tuple(n for t in self._teams for n in t.thread_ids)

    @property
    def taken(self) -> int:
        """How often a worker has carried another one's unit."""
        return sum(t.taken for t in self._teams)

    def launch(self, block: int, units: int) -> None:
        """Run as `Team.launch`, with the workers that no other launch has, at most one a unit."""
        if len(self._teams) == 1 and not self._teams[0].owner:  # as in most processes
            self._teams[0].launch(block, units)
        else:
            self._select_team().launch(block, units, self._free)

    def stop(self, seconds: float = JOIN_SECONDS) -> None:
        """End every worker, each within a time; a later launch starts fresh ones."""
        for team in self._teams:
            team.stop(seconds)

    def _free(self, asking: Team) -> int:
        """Return the number of cores that no other team's launch uses."""
        return self.most - sum(t.running for t in self._teams if t is not asking)

    def _select_team(self) -> Team:
        """Return the first idle team if a core is free; else one to wait for."""
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
    """Return the teams of this process; after a fork, the child's own."""
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
