"""The search for tables: one problem, one score, one move."""
