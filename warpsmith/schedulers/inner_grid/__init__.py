"""Rows that blocks of a grid, or of a cluster, share, which meet and keep what they have loaded."""
