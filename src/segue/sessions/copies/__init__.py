"""Segue's own copies of native sessions."""
