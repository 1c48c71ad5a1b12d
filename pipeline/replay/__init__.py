"""`replay-policy`: what a policy would have rejected of records that are in a topic already."""
