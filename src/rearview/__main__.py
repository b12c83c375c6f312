"""`python -m rearview`, which is also how torchrun starts the command line."""

from rearview.cli import run

if __name__ == "__main__":
    run()
