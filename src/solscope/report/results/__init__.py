"""One module per command, with its name: how its results look in the terminal and as Markdown."""
