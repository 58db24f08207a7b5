"""Automatic schedules. Each scheduler is three files: can, heuristic, apply."""
