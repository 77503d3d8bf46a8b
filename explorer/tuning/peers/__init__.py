"""Other runtimes that are raced here, each given the model in the form that suits it."""
