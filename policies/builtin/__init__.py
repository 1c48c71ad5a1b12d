"""The policies that the sidecar brings."""
