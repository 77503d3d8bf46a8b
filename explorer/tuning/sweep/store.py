"""Rows in a SQLite file, one transaction each: a stopped sweep resumes from them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType

from explorer.errors import BadOption
from explorer.tuning.sweep.rows import FAILED, SweepRow, row_of

TABLE = "ironworks_rows"
MAKE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} "
    "(key TEXT NOT NULL, machine TEXT NOT NULL, row TEXT NOT NULL, PRIMARY KEY (key, machine))"
)
WAIT_SECONDS = 30.0  # for another sweep that writes to the same file; chosen


class Store:
    """Rows by the key of their point and the machine; path None: in memory, for this sweep only."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        """Open or create the file."""
        self.path = path
        with self._problems():
            name = ":memory:" if path is None else str(Path(path))
            self._file = sqlite3.connect(name, timeout=WAIT_SECONDS)
            self._file.execute(MAKE)

    def __enter__(self) -> Store:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def add(self, row: SweepRow) -> None:
        """Store a row; it replaces a failed one, but no other."""
        old = self.of(row.key, row.machine)
        if old is not None and old.kind != FAILED:
            return
        with self._problems(), self._file:
            self._file.execute(
                f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?)",
                (row.key, row.machine, json.dumps(row.to_json())),
            )

    def of(self, key: str, machine: str | None) -> SweepRow | None:
        """Return the row of a point on a machine; `machine` None: on any."""
        where = "key = ?" if machine is None else "key = ? AND machine = ?"
        values = (key,) if machine is None else (key, machine)
        return next(self._rows(f"WHERE {where} ORDER BY machine", values), None)

    def _rows(self, clause: str, values: tuple[str, ...]) -> Iterator[SweepRow]:
        with self._problems():
            with closing(self._file.execute(f"SELECT row FROM {TABLE} {clause}", values)) as cursor:
                texts = [text for (text,) in cursor]
            yield from [row_of(json.loads(text)) for text in texts]

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as problem:
            raise BadOption(
                f"the rows in {self.path} cannot be used: {problem}",
                where="store",
                expected="a file that a sweep made, or a path where there is none",
            ) from problem
