"""Accounts: what changes them, who is logged in to them, and how to log in."""
