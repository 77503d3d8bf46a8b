"""Machinery of the course: predictions, checked exercises, notebooks and challenges.

A prediction is made before the result shows. An exercise is checked by the behaviour of an answer,
and a wrong pass is shown by the smallest program that it breaks. Notebooks for students, teachers
and graders come from one source. Challenges are scored from files,
and a work log is verified and run again from its file.
"""

from explorer.course.challenge import begin, submit, verify
from explorer.course.checking import check, expect, grade, hint, solution
from explorer.course.counterexample import Counterexample, counterexample
from explorer.course.prediction import predict, reveal
from explorer.course.worklog import worklog

__all__ = [
    "Counterexample",
    "begin",
    "check",
    "counterexample",
    "expect",
    "grade",
    "hint",
    "predict",
    "reveal",
    "solution",
    "submit",
    "verify",
    "worklog",
]
