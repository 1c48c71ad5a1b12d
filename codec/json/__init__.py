"""JSON texts in records: grammar, contents, whole batches."""
