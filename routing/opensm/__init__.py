"""The files of OpenSM, read and written."""
