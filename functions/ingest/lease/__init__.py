"""Which of two tasks sends, and what the other may let go of."""
