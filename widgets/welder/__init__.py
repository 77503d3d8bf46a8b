"""Pictures of Welder: groups, tile graphs, streams of tiles between memories."""
