"""The cheapest network that meets needs: the search, its bounds, and what a design can carry."""
