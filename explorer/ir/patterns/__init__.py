"""What a kernel is, found by its structure: contractions, sliding windows, running reductions,
regions.
"""
