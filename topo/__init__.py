"""The cluster as it is described, and the fabric it compiles into."""
