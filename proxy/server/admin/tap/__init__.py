"""The stream that `kafka-sidecar tap` reads: what passes, line by line, for as long as it is read."""
