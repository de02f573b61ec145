"""Files from outside, read within their budgets: text, CSV, YAML, workbooks."""
