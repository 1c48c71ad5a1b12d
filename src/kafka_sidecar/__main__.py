"""`python -m kafka_sidecar`: the command line."""

from kafka_sidecar.proxy.cli.entry import main

if __name__ == "__main__":
    main()
