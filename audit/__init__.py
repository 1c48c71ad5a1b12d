"""Counting records where they are sent and where they are read: the contract of auditors, and what they emit."""
