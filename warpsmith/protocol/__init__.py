"""Synchronization as objects: what roles and rings promise each other, and whether they keep it."""
