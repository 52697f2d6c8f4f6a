"""Code that a program's process and the command line share: settings, identities, paths, the policy file."""
