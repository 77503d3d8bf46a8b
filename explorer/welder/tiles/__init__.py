"""The tiles of a group at every memory level: tile graphs, what they hold and move, and the search
for them.
"""
