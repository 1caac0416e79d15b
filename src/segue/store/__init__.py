"""What Segue stores: conversations, turns, sessions, leases; in SQLite, or in PostgreSQL by URL.

    with open_store(None, home.store) as store:
        store.messages(store.conversation("fix-auth").id)

The SQL is in ``sql/``, one file per subject, the same for both databases; the schema is in ``migrations/``.
"""
