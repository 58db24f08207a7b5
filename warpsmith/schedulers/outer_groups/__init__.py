"""Fusions that sum columns, then groups of neighbouring columns, and need all of them again."""
