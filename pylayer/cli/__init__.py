"""The ``pylayer`` command. Nothing here is imported in a program's process."""
