"""SimpleX's NTF server: a task that agents connect to, and the commands that it executes for them."""
