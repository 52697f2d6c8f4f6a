"""Fleets: pipelines that travel between machines through HTTP and object storage. Only the command line uses this."""
