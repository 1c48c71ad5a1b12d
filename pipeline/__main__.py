"""`python -m kafka_sidecar.pipeline`, and the file that is named to spark-submit."""

from kafka_sidecar.pipeline.cli import main

if __name__ == "__main__":
    main()
