"""One folder per agent. Each says how its CLI is found, called, read, and how its failures are told apart."""
