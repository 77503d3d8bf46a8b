"""Other engines of language models, each with the same GGUF file in a form that it reads."""
