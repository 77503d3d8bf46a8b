"""The kernel table: one operator of each class, raced in one run against other runtimes and the
roof.
"""
