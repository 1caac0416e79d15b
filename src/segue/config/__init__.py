"""Configuration: files, environment, trust. Everything is checked and typed; nothing is run here."""
