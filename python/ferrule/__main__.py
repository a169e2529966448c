"""`python -m ferrule` is the `ferrule` command."""

from .cli.main import main

if __name__ == "__main__":
    main()
