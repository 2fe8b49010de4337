"""`python cli.py ...` from a checkout is `ampnet ...`."""

from ampnet.cli import main

if __name__ == "__main__":
    main()
