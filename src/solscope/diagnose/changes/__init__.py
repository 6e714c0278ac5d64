"""What changed: step time split into components that add up, and every sensor tested."""
