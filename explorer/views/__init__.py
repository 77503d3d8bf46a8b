"""Rows and tables of what each system decided: the terminal prints them, the widgets draw them.

Each system has one file. `differences` compares two programs, and `matches` lists the matches of a
step's rules.
"""
