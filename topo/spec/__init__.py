"""The language of specs: closed models, quantities with their units, and errors that name a place."""
