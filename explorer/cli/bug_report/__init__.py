"""`ironworks bug-report`: what a report of a fault needs, and nothing private."""

from __future__ import annotations

from collections.abc import Sequence


def main(given: Sequence[str]) -> int:
    """Print the report, or write it."""
    # imported here because a fault is kept by `last_fault`, which needs none of it
    from explorer.cli.bug_report.report import command

    return command(given)
