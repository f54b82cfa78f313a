"""PID 1: relays between the bridge and the worker, and outlives the worker. No user code runs in this process."""
