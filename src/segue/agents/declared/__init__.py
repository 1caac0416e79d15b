"""An agent declared in ``config.toml``: its calls and its output follow what is declared there."""
