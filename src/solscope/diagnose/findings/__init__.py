"""What two runs show, as numbers and pairs that a check can ask for."""
