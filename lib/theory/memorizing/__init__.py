"""Networks built by hand that repeat what they have read, or speak a language."""
