"""What ``pylayer report`` makes of recorded runs. Only the command line imports this."""
