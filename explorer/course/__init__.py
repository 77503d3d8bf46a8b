"""The course's machinery: predictions that are made before the result shows, exercises that are
checked by what an answer does, a wrong pass shown by the smallest program that it breaks, and
notebooks for students, teachers and graders from one source. Challenges are scored from files.
"""

from explorer.course.challenge import begin, submit, verify
from explorer.course.checking import check, expect, grade, hint, solution
from explorer.course.counterexample import Counterexample, counterexample
from explorer.course.prediction import predict, reveal

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
]
