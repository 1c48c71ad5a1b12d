"""The configuration file: its sections, types, loading and reloading."""
