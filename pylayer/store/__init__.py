"""The store on disk: files, journals, snapshots and the records in them."""
