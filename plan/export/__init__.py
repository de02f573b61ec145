"""Files for the people downstream, one module a format."""
