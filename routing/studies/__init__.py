"""Questions about tables: failures, losses, adaptive routing, and what no tables can beat."""
