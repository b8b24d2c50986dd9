"""The demo's story: a real cluster, what befalls it, its own truth, and what the monitor shows."""
