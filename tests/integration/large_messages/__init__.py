"""Large messages between real clients and a real broker."""
