"""Orders of channels in which no packet can wait for itself, and the order in which destinations are assigned."""
