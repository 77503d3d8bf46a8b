"""Data models of the pictures: compilation, knobs, graphs, walls."""
