"""Adding profiles to a store: find the files, read them in an engine, commit the rows."""
