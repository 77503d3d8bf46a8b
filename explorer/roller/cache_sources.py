"""Source folders hashed into the key of the tiling cache."""

FOLDERS = ("roller", "tile", "cost", "passes", "ir", "ops")
