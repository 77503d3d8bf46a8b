"""Warm-ups of chapter 08."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
