"""Rendering: takes data, returns renderables or strings; knows nothing of files, processes or verdict rules."""
