"""The daemon: the use cases of ``app`` over HTTP, for pages, phones, bots and scripts."""
