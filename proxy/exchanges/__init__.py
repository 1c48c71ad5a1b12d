"""What the exchanges of single APIs share."""
