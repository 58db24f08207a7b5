"""Rows that are made of parts, which are reduced first: group norms, whose parts are channels."""
