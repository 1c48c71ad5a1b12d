"""Records counted as clients send and receive them, and the events that are sent to the audit topic."""
