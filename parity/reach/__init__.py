"""What of upstream's core the committed scenarios execute, and what is decided about the rest."""
