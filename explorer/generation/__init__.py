"""Generation of text: a language model's step run for each next word, over one cache in place."""
