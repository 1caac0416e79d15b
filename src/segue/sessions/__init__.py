"""Native sessions of all agents: found, read, searched, checked, repaired, kept and pruned."""
