"""The command line. Each command stands in its own file and is imported only when it is called."""
