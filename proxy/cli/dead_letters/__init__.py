"""The commands of dead letters: what was rejected is listed, shown and replayed."""
