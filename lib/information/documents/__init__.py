"""Information in collections of documents: by segment, by block, against other documents."""
