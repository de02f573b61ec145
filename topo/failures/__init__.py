"""What fails together, who still reaches whom, and what the worst failure of each kind takes away."""
