"""Solutions, their evaluation and their score."""
