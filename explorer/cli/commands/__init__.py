"""The commands of `explorer.cli.COMMANDS`: functions of the arguments after a command's name."""
