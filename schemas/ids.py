"""The forms in which records have the id of their schema."""
