"""Readers and writers of the files of a subnet manager."""
