"""Traffic on a network: flows, collectives, training, and what happens inside servers."""
