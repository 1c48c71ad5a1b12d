"""Schemas that records are checked against: what each language's engine finds, and where the schemas come from."""
