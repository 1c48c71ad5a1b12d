"""Records that may not be written: who judges a Produce request, what the client is told, what is remembered of it."""
