"""The command, the exports and the report."""
