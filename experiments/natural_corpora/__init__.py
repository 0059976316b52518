"""Natural corpora: is a split like the rest of its corpus, and does the tail of its curve decay as a power?"""
