"""Warm-ups of chapter 10."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
