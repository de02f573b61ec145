"""The commands of ``plan``, a few in a module. Whatever takes long to import is imported inside the functions."""
