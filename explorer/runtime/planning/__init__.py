"""Everything that is decided for one binding of the sizes, before memory is taken: order, places,
walls.
"""
