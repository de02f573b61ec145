"""The search for the cheapest network that meets needs: problem, branches, bounds, capacity, designs."""
