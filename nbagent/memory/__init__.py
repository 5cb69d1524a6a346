"""Notes that agents keep across conversations and kernels."""
