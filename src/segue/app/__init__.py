"""The use cases of Segue. The library and the command line call these, and nothing below."""
