"""A minimal paged-KV engine that mirrors pinned vLLM. Imports neither oracle nor parity."""
