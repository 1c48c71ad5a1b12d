"""One module per API that is read or written, with one class per message for all its versions."""
