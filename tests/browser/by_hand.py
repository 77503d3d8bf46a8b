"""What a page of the model made by hand holds, made once a process: a second of its rooms."""

from __future__ import annotations

import json
from functools import cache

from tests.widgets import made_by_hand as hand
from widgets.page.report import document, page
from widgets.session.session import Session


def session(measured: bool = False) -> Session:
    """A new one."""
    found = Session(hand.HandMade(), compare=hand.compare)
    if measured:
        found.measure()
    return found


@cache
def content(measured: bool) -> str:
    """What a house is given, as JSON that may stand in a script."""
    return json.dumps(document(session(measured))).replace("</", "<\\/")


@cache
def saved_page(measured: bool = False) -> str:
    """A report."""
    return page(session(measured))
