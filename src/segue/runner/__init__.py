"""One run of an agent's CLI: start it, supervise it, read its output. Knows agents, not conversations."""
