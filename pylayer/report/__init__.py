"""What ``pylayer report`` makes of recorded runs. Imported by the command line alone."""
