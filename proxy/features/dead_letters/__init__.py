"""Rejected records, copied to dead letter topics: which, how they are kept, who sends them."""
