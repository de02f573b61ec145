"""The vocabulary of specs: strict models, names, units, validation."""
