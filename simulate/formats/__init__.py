"""Files that bring traffic in and take results out, one module a format."""
