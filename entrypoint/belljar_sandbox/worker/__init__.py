"""The worker process below the code that it runs: frames, streams, signals, event loop, copies of itself."""
