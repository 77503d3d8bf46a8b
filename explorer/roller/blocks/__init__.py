"""The thread blocks that there are for a kernel on a GPU, what each does and moves, and which of
them a wall may take.
"""
