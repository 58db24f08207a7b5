"""Where the elements of a tensor live: in whose registers, where in shared and global memory."""
