"""An agent declared in ``config.toml``: how it is called and how its output is read."""
