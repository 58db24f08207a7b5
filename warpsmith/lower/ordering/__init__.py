"""What orders the accesses of threads, copies and products: edges, and their mechanisms."""
