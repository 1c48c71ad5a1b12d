"""The notation messages are declared in, and the functions compiled from a declaration."""
