"""The command line. Each command is in its own file and is imported only when it is called."""
