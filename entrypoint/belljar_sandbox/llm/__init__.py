"""Requests to a language model, and parts of long texts for it."""
