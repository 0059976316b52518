"""The law of the data: orthants of short blocks, the likelihood of long sequences, the smallest loss there is."""
