"""The command line, and what its commands do."""
