"""Traffic played over routed fabrics."""
