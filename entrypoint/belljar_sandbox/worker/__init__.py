"""The parts of the worker process below the code that it runs: frames, streams, signals, event loop, and its copies."""
