"""Inspection of a compilation: every match of each step's rules, and what each step is worth.

Nothing is logged while a model is compiled: a step is run again on the program that it was given.
"""
