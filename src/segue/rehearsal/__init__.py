"""Rehearse without an account: a loopback model that speaks the four wire protocols, and an agent of our own.

Nothing is imported here; take `segue.rehearsal.server` or `segue.rehearsal.stage` by name.
"""
