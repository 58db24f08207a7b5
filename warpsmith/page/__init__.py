"""One HTML page about a compiled call."""
