"""`python -m parity` is the command `parity`."""

try:
    from parity.cli.main import main
except KeyboardInterrupt:  # which is not handled before `main`
    raise SystemExit(130) from None

if __name__ == "__main__":
    raise SystemExit(main())
