"""Warm-ups of chapter 03."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
