"""The way of a turn, from the message to the answer: everything here touches the world."""
