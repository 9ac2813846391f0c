"""`python -m service`: the same as the `embedding-service` command."""

from service.cli import main

if __name__ == "__main__":
    main()
