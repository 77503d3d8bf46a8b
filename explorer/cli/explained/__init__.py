"""The decisions of each system as rows and as words: one file for each, one function in it."""
