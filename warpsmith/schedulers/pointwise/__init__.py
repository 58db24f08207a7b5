"""Fusions without reductions: one grid over the widest output."""
