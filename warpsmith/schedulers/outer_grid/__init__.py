"""Fusions that need columns again after they reduced them, which all blocks of a grid keep."""
