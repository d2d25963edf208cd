"""The engine's command line, one verb a file."""
