"""The backend of `torch.compile`: graphs of torch as fusions. Importing it imports torch."""
