"""Questions to a language model, and texts cut into parts for it."""
