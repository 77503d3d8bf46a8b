"""Warm-ups of chapter 05."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
