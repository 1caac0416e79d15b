"""Accounts: switching a conversation between them, and what is carried over with the user's consent."""
