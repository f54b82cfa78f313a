"""One run of code: what happens before, during and after it, and what the reply says about it."""
