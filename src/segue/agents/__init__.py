"""One folder per agent: how its CLI is found, called and read, and how its failures are recognised."""
