"""Starts the two processes: the supervisor as PID 1, and the worker in a fork of it."""
