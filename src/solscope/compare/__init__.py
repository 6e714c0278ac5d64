"""Two or more profiles of the same work: side by side, and as a gate for CI."""
