"""The operating system, and nothing of ours: processes, groups, pipes, watching files."""
