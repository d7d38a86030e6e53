"""What should have happened, compared with what did."""
