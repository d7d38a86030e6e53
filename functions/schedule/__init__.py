"""Called every minute: wakes the apps that are due, and every hour ends what was never proven."""
