"""Publishing: what a page says at its head, where the book stands on the web, what surrounds its pages, the print."""
