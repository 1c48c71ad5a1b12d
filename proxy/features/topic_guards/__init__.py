"""Guards of topics: what clients may ask for when they create, alter and delete them."""
