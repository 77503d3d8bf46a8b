"""Warm-ups of chapter 12."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
