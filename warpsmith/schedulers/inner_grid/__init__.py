"""Rows that the blocks of a grid share, which meet and keep what they have loaded."""
