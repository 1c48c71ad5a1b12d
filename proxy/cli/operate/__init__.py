"""The commands of operators: how a running sidecar is, what is in force, and whether a start would succeed."""
