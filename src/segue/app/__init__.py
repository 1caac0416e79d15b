"""The one way in: the library, the command line and the server all go through it."""
