"""The rehearsal agent, Segue's own small CLI: no account, no network."""
