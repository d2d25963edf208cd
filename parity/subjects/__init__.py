"""Subjects: who is held against the oracle, through which door, and how much of it can be seen."""
