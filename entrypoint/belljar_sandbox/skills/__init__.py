"""Functions that are saved for later sessions."""
