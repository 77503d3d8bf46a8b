"""A net of random tries: graphs, files, states, crashes and properties of the tests, each a pure
function of its seed.
"""
