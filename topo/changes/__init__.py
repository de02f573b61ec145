"""Two pictures of one fabric: which node stands for which, what differs, and how to get from one to the other."""
