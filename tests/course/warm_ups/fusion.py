"""Right and wrong answers to the warm-ups of chapter 03."""

RIGHT: dict[str, dict[str, str]] = {}
WRONG: dict[str, dict[str, tuple[str, str]]] = {}
