"""All that is written to the API server, one module for each kind of write."""
