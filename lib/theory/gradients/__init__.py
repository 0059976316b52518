"""Gradients of an attentive recurrent network through time."""
