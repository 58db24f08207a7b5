"""Kernel form -> CUDA C++ text. Strings are born here."""
