"""Publishing: where the book stands on the web, what surrounds its pages there, the book in print."""
