"""One glossary: what a page tells on hover has every word that needs one."""

from widgets.model import brick_wall
from widgets.model.glossary import meanings, words
from widgets.rooms import gallery


def test_every_cause_of_idle_time_and_every_pattern_kind_is_explained() -> None:
    from explorer.relax.pattern_kinds import PatternKind

    kinds = {kind.word for kind in PatternKind} - {"Tuple"}
    assert {*brick_wall.NAMES.values(), *kinds} <= meanings().keys()
    told = gallery.page_parts()
    assert told["glossary"] == meanings() and len(told["glossary"]) == len(words())
    assert [mean for _, _, mean in told["causes"]] == [
        meanings()[word] for word in brick_wall.NAMES.values()
    ]


def test_policies_and_what_a_walls_rooms_offer_are_explained() -> None:
    from explorer.rammer import POLICIES

    assert {*POLICIES} <= meanings().keys()
    assert {"chunks per core", "core", "SM", "rKernel", "policy"} <= meanings().keys()
