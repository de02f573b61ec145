"""Traffic: flows, collectives, training, and what happens inside servers."""
