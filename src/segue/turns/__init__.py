"""The way of a turn, from the message to the answer: with the store, the disk and processes."""
