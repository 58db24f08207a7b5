"""Fusion form: tensors over iteration domains, the expressions on them, and scalar arithmetic."""
