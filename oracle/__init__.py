"""What the reference is: pins, installer, checkout, symbols, and the driver of its own environment."""
