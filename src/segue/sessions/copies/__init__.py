"""Our own copies of native sessions."""
