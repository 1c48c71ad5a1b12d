"""Messages that are larger than a topic allows: how they are split, what is stored, how they are assembled."""
