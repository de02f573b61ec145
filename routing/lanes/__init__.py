"""Service levels and virtual lanes: classes of traffic, policies, and tables fitted to the lanes there are."""
