"""Rules of who may do what: requests checked, and responses without what a client may not see."""
