"""Native sessions of all agents: find, read, search, check, repair, copy and prune them."""
