"""Models of hardware, read from tables: what each is called, costs, draws and delays."""
