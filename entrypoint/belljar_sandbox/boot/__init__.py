"""How the two processes start: the supervisor as PID 1, and in a fork of it the worker. Nothing imports this folder."""
