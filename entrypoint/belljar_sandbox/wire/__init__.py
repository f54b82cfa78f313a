"""What the supervisor and the worker share: frames, buffers, limits, and descriptors passed between them."""
