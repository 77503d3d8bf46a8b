"""Other runtimes for races, each with the model in its fastest form."""
