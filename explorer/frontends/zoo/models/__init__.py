"""The models of the papers, each a dataclass of its sizes that is a function of the vocabulary."""
