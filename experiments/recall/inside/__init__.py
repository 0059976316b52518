"""What goes on inside networks that recall: where they look, what gradients reach, which paths carry them."""
