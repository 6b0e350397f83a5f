"""`python -m hermes_mobile`, the same as the command `hermes-mobile`."""

from hermes_mobile.cli import main

if __name__ == "__main__":
    main(prog_name="hermes-mobile")
