"""Reports on the decisions of each system, as rows and as text.

Each system has one file with one function.
"""
