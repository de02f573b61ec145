"""Hardware models and the catalog that lists them."""
