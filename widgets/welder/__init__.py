"""Welder's pictures: groups, tile graphs, streams of tiles between memories."""
