"""One run of code: what happens before, while and after it executes, and what the reply says of it."""
