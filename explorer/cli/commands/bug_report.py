"""`ironworks bug-report`: the facts that a report of a fault needs, nothing private."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cli.bug_report.report import command


def main(argv: Sequence[str]) -> int:
    """Print the report or write it to a file."""
    return command(argv)
