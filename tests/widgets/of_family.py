"""The pictures whose controls choose the same, by name."""

from widgets.rooms import gallery


def of_family(name: str) -> tuple[str, ...]:
    """In the order of their tabs."""
    return tuple(p.name for p in gallery.PICTURES if p.family and p.family.name == name)
