"""The correlation length that a fit finds in a window: what *Binary sequences* draws of it."""
