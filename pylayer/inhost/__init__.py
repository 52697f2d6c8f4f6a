"""Code that runs in a program's process, on the policy thread. It imports nothing from the command line."""
