"""One module per API that is read; one class per message, all its versions in it."""
