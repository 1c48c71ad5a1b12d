"""What the exchanges of several APIs share."""
