"""Results after the run: their files, scores, comparisons, and the leaderboard."""
