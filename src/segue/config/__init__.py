"""Configuration: files, environment, trust. What the user says, checked and typed; nothing is run here."""
