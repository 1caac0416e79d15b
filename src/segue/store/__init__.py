"""What Segue remembers: conversations, turns, sessions, leases; in SQLite, or in PostgreSQL by URL.

    with open_store(None, home.store) as store:
        store.messages(store.conversation("fix-auth").id)

The SQL stands in ``sql/``, one file per subject, one text for both databases; the schema in ``migrations/``.
"""
