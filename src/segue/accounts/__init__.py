"""Accounts: what changes them, who is logged in to them, and what is carried over from one to another."""
