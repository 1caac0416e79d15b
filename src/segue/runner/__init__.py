"""One run of an agent's CLI: start it, supervise it, read it, conclude. Knows agents, not conversations."""
