"""Automatic schedules. Each scheduler is a folder: can, heuristic, apply, candidate."""
