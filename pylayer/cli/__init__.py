"""The ``pylayer`` command. The layer imports none of this package in a program's process."""
