"""GOAL schedules: operations of each rank and what they wait for, in text, in binary, and as flows."""
