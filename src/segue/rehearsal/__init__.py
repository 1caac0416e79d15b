"""Rehearsals without an account: a loopback model that speaks the four wire protocols, and a small agent.

Nothing is imported here; import `segue.rehearsal.server` or `segue.rehearsal.stage`.
"""
