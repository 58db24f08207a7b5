"""Attention of a few rows of queries, whose keys and values are read once, a tile a block."""
