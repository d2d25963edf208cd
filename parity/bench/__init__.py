"""`make bench`: what the engine takes beside upstream and transformers, measured in one run, as ratios.

A bench is no test: it prints figures beside what they should reach, and says where it has none.
"""
