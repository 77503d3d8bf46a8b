"""Models of the papers, each a dataclass of sizes that is a function of the layer vocabulary."""
