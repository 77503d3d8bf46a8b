"""Generation of text: a language model's step run for each next token, over one cache in place."""
