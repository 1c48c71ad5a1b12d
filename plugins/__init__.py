"""What policies and interceptors have in common: how their classes are found and their settings read."""
