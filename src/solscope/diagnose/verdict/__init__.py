"""The answer: causes ranked, the verdict, hidden changes, and the sentence."""
