"""`python -m parity` is the command `parity`."""

from parity.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
