"""What may be written to a topic: the contract of KIP-940, and the policies that come with the sidecar."""
