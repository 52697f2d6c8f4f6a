"""What a program's process and the command line both use: settings, identities, paths, the policy file."""
