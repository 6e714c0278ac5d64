"""Recording what a diagnosis needs: sensors of host and GPU beside a profile."""
