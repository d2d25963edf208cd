"""A minimal paged-KV engine that mirrors pinned vLLM. Imports neither oracle nor parity.

It logs to `nullblock.engine` and stays silent until somebody listens.
"""

import logging

logging.getLogger("nullblock.engine").addHandler(logging.NullHandler())
