"""The commands, a file each: its `main` takes the arguments that follow the command's name."""
