"""Key-value recall: facts that a document fixes once, and how many of them the state of a network keeps."""
