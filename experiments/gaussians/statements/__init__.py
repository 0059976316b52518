"""What is stated of Gaussian language models, and how it is judged."""
