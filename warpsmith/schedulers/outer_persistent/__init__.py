"""Fusions that need columns again after they reduced them: a block keeps its own in registers."""
