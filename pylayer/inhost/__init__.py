"""What runs in a program's process, on the policy thread. It imports nothing of the command line."""
