"""The store on disk: files, journals, packs and the records in them."""
