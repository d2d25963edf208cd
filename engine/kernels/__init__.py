"""The CPU's fast paths: small loops compiled at first use, run by the threads that torch's own operations use.

Each stands in for a few torch operations whose cost at a handful of rows is dispatch, temporaries or a copy of
what is only read. Each has a plain twin in torch, which is what `plain=True`, another device or dtype computes.
`team` runs a kernel, `product`, `rows` and `attend` hold the kernels, `memory` the pages that weights lie in.
"""
