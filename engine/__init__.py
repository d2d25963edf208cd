"""A minimal paged-KV engine that mirrors pinned vLLM. Imports neither oracle nor parity.

It logs to `nullblock.engine` and stays silent until somebody listens.
"""

import logging

__version__ = "0.1.0"  # of the distribution; a test holds it against pyproject.toml

logging.getLogger("nullblock.engine").addHandler(logging.NullHandler())
