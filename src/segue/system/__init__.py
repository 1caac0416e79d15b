"""The operating system: processes, groups, pipes, watching files. Knows nothing about conversations."""
