"""The power of detection, measured: faults planted one at a time, or two, and who notices them."""
