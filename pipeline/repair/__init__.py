"""What is done about it: losses are found early, sent again, and useless subscriptions removed."""
