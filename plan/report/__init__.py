"""``report.html``: one page that shows a plan to the person who signs, without a network or a program."""
