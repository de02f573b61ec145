"""Tables for what is still connected after failures, with few entries changed, and the order in which to write them."""
