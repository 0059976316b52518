"""The distribution of the data: orthants of short blocks, likelihood of long sequences, the smallest loss there is."""
