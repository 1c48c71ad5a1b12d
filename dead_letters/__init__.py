"""Dead letters: records that a policy has rejected, as they are stored in a dead letter topic."""
